"""The option `--fast`: only tests without Spark, databases and other servers, and no way to start one.

Tests that are marked `spark` are deselected. A test that starts a service anyway fails, whatever
the code under test makes of the refusal.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest

# Programs of Spark, PostgreSQL and object storage, and the launcher of the embedded database.
_SERVICES = frozenset(
    ["java", "spark-submit", "postgres", "pg_ctl", "initdb", "weed"]
    + ["moirae.runtime.embedded_database"]
)

_refused: list[str] = []  # of the current test


class ServiceRefused(RuntimeError):
    """A test of `make test-fast` tried to use a service."""


def refuse(service: str) -> None:
    message = (
        f"{service} is not available in `make test-fast`: "
        "mark the test `spark`, or move it to tests/integration"
    )
    _refused.append(message)
    raise ServiceRefused(message)


def find_service(command: Sequence[Any]) -> str | None:
    """The service that a command line starts; None if it starts none."""
    for argument in command:
        name = Path(argument.decode() if isinstance(argument, bytes) else str(argument)).name
        if name in _SERVICES:
            return name
    return None


def _refuse_processes(event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook: it sees every process that this one starts, by whatever library."""
    if event not in ("subprocess.Popen", "os.exec", "os.posix_spawn"):
        return
    executable, command = arguments[:2]
    parts = command.split() if isinstance(command, str) else list(command)
    service = find_service([executable or "", *parts])
    if service is not None:
        refuse(service)


def _refuse_connection(*arguments: Any, **options: Any) -> None:
    refuse("PostgreSQL")


class WithoutServices:
    """The hooks of a run with `--fast`."""

    def __init__(self) -> None:
        sys.addaudithook(_refuse_processes)
        psycopg.connect = _refuse_connection  # type: ignore[assignment]
        psycopg.Connection.connect = _refuse_connection  # type: ignore[assignment,method-assign]

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        service_tests = [item for item in items if item.get_closest_marker("spark")]
        config.hook.pytest_deselected(items=service_tests)
        items[:] = [item for item in items if not item.get_closest_marker("spark")]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        _refused.clear()
        yield
        if _refused:
            pytest.fail(_refused[0], pytrace=False)
