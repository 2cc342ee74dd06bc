"""The guard of `make test-fast`: starting a service fails."""

import sys

import psycopg
import pytest

from tests import no_services

LAUNCHER = [sys.executable, "-m", "moirae.runtime.embedded_database", "/home/me/w"]


@pytest.fixture(autouse=True)
def refused(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a run with `--fast` would report for the test."""
    messages: list[str] = []
    monkeypatch.setattr(no_services, "_refused", messages)
    return messages


@pytest.mark.parametrize(
    "command", [["/opt/jdk/bin/java", "-version"], [b"spark-submit"], LAUNCHER, ["weed", "server"]]
)
def test_starting_a_service_is_refused(command: list[str | bytes], refused: list[str]) -> None:
    with pytest.raises(no_services.ServiceRefused, match="is not available in `make test-fast`"):
        no_services._refuse_processes("subprocess.Popen", (command[0], command, None, None))
    assert len(refused) == 1


@pytest.mark.parametrize(
    "command", [[sys.executable, "-c", "print(1)"], ["sh", "-c", "true"], ["sh", "javascript"]]
)
def test_other_processes_are_started(command: list[str], refused: list[str]) -> None:
    no_services._refuse_processes("subprocess.Popen", (command[0], command, None, None))
    assert refused == []


def test_connecting_to_a_database_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (psycopg, psycopg.Connection):
        monkeypatch.setattr(module, "connect", module.connect)
    monkeypatch.setattr(sys, "addaudithook", lambda _: None)
    no_services.WithoutServices()
    with pytest.raises(no_services.ServiceRefused, match="PostgreSQL"):
        psycopg.connect("host=127.0.0.1")
    with pytest.raises(no_services.ServiceRefused, match="PostgreSQL"):
        psycopg.Connection.connect("host=127.0.0.1")
