"""Ends the processes of a workspace while an erasure removes what they may have in memory.

A process finds that it is not the one of its role any more before it writes, or with its next
heartbeat. A new one waits until the erasure has released its lock, and reads what is left then.
"""

import time

import sql
from moirae.errors import Conflict, MoiraeError
from sql.archive import ErasureGateway
from sql.processes import ProcessGateway

_TIMEOUT = 120.0  # seconds for all processes to end
_POLL = 0.2  # seconds
_REPEAT = 5.0  # seconds; one that was starting may have begun after the first time


def hold_erasure_lock(connection: sql.Connection) -> None:
    """Keep processes from starting until the connection is closed. Raises `Conflict`.

    Waits for processes that look whether an erasure runs.
    """
    gateway = ErasureGateway(connection)
    deadline = time.monotonic() + _REPEAT
    while not gateway.try_lock():
        if time.monotonic() > deadline:
            raise Conflict("another erasure of this workspace is in progress")
        time.sleep(_POLL)


def end_processes(connection: sql.Connection, timeout: float = _TIMEOUT) -> None:
    """End all processes but the server and `moirae up`. Raises `MoiraeError` if one stays."""
    processes = ProcessGateway(connection)
    deadline = time.monotonic() + timeout
    processes.end_all()
    repeat_at = time.monotonic() + _REPEAT
    while roles := processes.list_held():
        now = time.monotonic()
        if now > deadline:
            raise MoiraeError(
                f"the {roles[0]} process did not end within {timeout:.0f} s: stop it, then run "
                "`moirae archive erase --continue`"
            )
        if now > repeat_at:
            processes.end_all()
            repeat_at = now + _REPEAT
        time.sleep(_POLL)
