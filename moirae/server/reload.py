"""Reloading rules: the live process does it, and says in the database what came of it."""

import threading
import time

import sql
from moirae.deployments import RuleRegistry
from moirae.errors import RequestRejected
from moirae.runtime import list_processes
from moirae.server.pool import ConnectionPool

# Seconds: for the files to be checked; between two looks for the answer.
_RELOAD_TIMEOUT, _POLL_INTERVAL = 60.0, 0.1
# Who waits holds a thread and a connection.
_RELOAD_LOCK = threading.Lock()


def request_reload(pool: ConnectionPool) -> list[str]:
    """Have the rule files looked at: what is wrong with them, nothing where they are applied.
    Raises `Refused`.
    """
    if not _RELOAD_LOCK.acquire(blocking=False):
        raise RequestRejected(429, "the rule files are being looked at already", 1)
    try:
        return _await_reload(pool)
    finally:
        _RELOAD_LOCK.release()


def _await_reload(connections: ConnectionPool) -> list[str]:
    with connections.connection() as connection:
        registry = RuleRegistry(connection)
        if not any(p["role"] == "live" and p["alive"] for p in list_processes(connection)):
            raise RequestRejected(
                503, "the live process does not run: rules are applied when it starts", 5
            )
        request = sql.RuleFileGateway(connection).request_reload()
        deadline = time.monotonic() + _RELOAD_TIMEOUT
        while time.monotonic() < deadline:
            problems = registry.reload_problems(request)
            if problems is not None:
                return problems
            time.sleep(_POLL_INTERVAL)
    raise RequestRejected(
        503, "the live process has not answered yet: it is asked, and will look at the files", 5
    )
