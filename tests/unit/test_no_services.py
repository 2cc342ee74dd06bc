"""The guard of `make test-fast`: starting a service fails, also in child processes."""

import os
import subprocess
import sys

import pytest

from tests import no_services
from tests.service_guard import refused_services
from tests.service_guard.refused_services import ServiceRefused

LAUNCHER = [sys.executable, "-P", "moirae/runtime/embedded_database.py", "/home/me/w"]
MESSAGE = "is not available in `make test-fast`"


@pytest.fixture(autouse=True)
def refused(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a run with `--fast` would report for the test."""
    messages: list[str] = []
    monkeypatch.setattr(refused_services, "refused", messages)
    return messages


@pytest.mark.parametrize(
    "command", [["/opt/jdk/bin/java", "-version"], [b"spark-submit"], LAUNCHER, ["weed", "server"]]
)
def test_starting_a_service_is_refused(command: list[str | bytes], refused: list[str]) -> None:
    with pytest.raises(ServiceRefused, match=MESSAGE):
        refused_services.refuse_processes("subprocess.Popen", (command[0], command, None, None))
    assert len(refused) == 1


@pytest.mark.parametrize(
    "command", [[sys.executable, "-c", "print(1)"], ["sh", "-c", "true"], ["sh", "javascript"]]
)
def test_other_processes_are_started(command: list[str], refused: list[str]) -> None:
    refused_services.refuse_processes("subprocess.Popen", (command[0], command, None, None))
    assert refused == []


def test_child_process_refuses_services() -> None:
    program = "import subprocess; subprocess.run(['java', '-version'])"
    search_path = os.pathsep.join([str(no_services._GUARD_FOLDER), *sys.path])
    process = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": search_path},
        capture_output=True,
        text=True,
    )
    assert f"ServiceRefused: java {MESSAGE}" in process.stderr


def test_connecting_to_a_database_is_refused() -> None:
    with pytest.raises(ServiceRefused, match="PostgreSQL"):
        no_services.refuse_connection("host=127.0.0.1")
