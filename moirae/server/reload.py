"""Reload of the rule files: the live process does it and stores the result in the database."""

import threading
import time

from moirae.deployments import RuleRegistry
from moirae.errors import RequestRejected
from moirae.server.pool import ConnectionPool
from moirae.server.readiness import live_process_is_running
from sql.access import AuditGateway
from sql.rules import RuleFileGateway

_RELOAD_TIMEOUT = 60.0  # seconds
_POLL_INTERVAL = 0.1  # seconds
_BUSY_RETRY = 1  # seconds after which a client may retry
_LIVE_RETRY = 5  # seconds
# A request that waits for the live process occupies a thread and a connection: one at a time.
_RELOAD_LOCK = threading.Lock()


def request_reload(pool: ConnectionPool, author: str) -> list[str]:
    """Have the live process reload the rule files, and wait for the result.

    The request is stored with its line in the audit log.
    Returns the problems of the files; none if the rules are applied. Raises `RequestRejected`.
    """
    if not _RELOAD_LOCK.acquire(blocking=False):
        raise RequestRejected(429, "a reload is already in progress", _BUSY_RETRY)
    try:
        return _await_reload(pool, author)
    finally:
        _RELOAD_LOCK.release()


def _await_reload(pool: ConnectionPool, author: str) -> list[str]:
    with pool.connection() as connection:
        if not live_process_is_running(connection):
            raise RequestRejected(
                503,
                "the live process is not running: rules are applied when it starts",
                _LIVE_RETRY,
            )
        registry = RuleRegistry(connection)
        with connection.transaction():
            AuditGateway(connection).insert(author, "api", "service.reload", {})
            request = RuleFileGateway(connection).request_reload()
        deadline = time.monotonic() + _RELOAD_TIMEOUT
        while time.monotonic() < deadline:
            problems = registry.reload_problems(request)
            if problems is not None:
                return problems
            time.sleep(_POLL_INTERVAL)
    raise RequestRejected(
        503,
        f"no result from the live process within {_RELOAD_TIMEOUT:.0f} s: the request stays queued",
        _LIVE_RETRY,
    )
