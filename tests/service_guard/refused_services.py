"""An audit hook that lets no process start a JVM, a database or another server."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# Programs of Spark, PostgreSQL and object storage, and the launcher of the embedded database.
_SERVICES = frozenset(
    """java spark-submit postgres pg_ctl initdb weed embedded_database.py""".split()
)
_EVENTS = frozenset(["subprocess.Popen", "os.exec", "os.posix_spawn"])

refused: list[str] = []
"""Messages of this process; the plugin clears them before each test."""


class ServiceRefused(RuntimeError):
    """A test of `make test-fast` tried to use a service."""


def refuse(service: str) -> None:
    message = (
        f"{service} is not available in `make test-fast`: "
        "mark the test `spark`, or move it to tests/integration"
    )
    refused.append(message)
    raise ServiceRefused(message)


def find_service(command: Sequence[Any]) -> str | None:
    """The service that a command line starts; None if it starts none."""
    for argument in command:
        name = Path(argument.decode() if isinstance(argument, bytes) else str(argument)).name
        if name in _SERVICES:
            return name
    return None


def refuse_processes(event: str, arguments: tuple[Any, ...]) -> None:
    """The audit hook: it sees every process that this one starts, by whatever library."""
    if event not in _EVENTS:
        return
    executable, command = arguments[:2]
    parts = command.split() if isinstance(command, str) else list(command)
    service = find_service([executable or "", *parts])
    if service is not None:
        refuse(service)


def install() -> None:
    sys.addaudithook(refuse_processes)
