"""Reloading rules: the live process does it, and says in the database what came of it."""

import threading
import time

from moirae.deployments.registry import Registry
from moirae.process import processes
from moirae.server.answers import Refused
from moirae.server.connections import Connections

# Seconds: for the files to be checked; between two looks for the answer.
_PATIENCE, _LOOK = 60.0, 0.1
# Who waits holds a thread and a connection.
_ONE = threading.Lock()


def reload(connections: Connections) -> list[str]:
    """Have the rule files looked at: what is wrong with them, nothing where they are applied. Raises `Refused`."""
    if not _ONE.acquire(blocking=False):
        raise Refused(429, "the rule files are being looked at already", 1)
    try:
        return _reload(connections)
    finally:
        _ONE.release()


def _reload(connections: Connections) -> list[str]:
    with connections.lend() as connection:
        registry = Registry(connection)
        if not any(p["role"] == "live" and p["alive"] for p in processes(connection)):
            raise Refused(503, "the live process does not run: rules are applied when it starts", 5)
        request = registry.ask_reload()
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            problems = registry.reloaded(request)
            if problems is not None:
                return problems
            time.sleep(_LOOK)
    raise Refused(503, "the live process has not answered yet: it is asked, and will look at the files", 5)
