"""One process of a role at a time: who holds the lock writes, and whoever was replaced finds out
before it does.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
import structlog
from psycopg import Connection

import sql
from archiver.errors import ArchiverError
from moirae.errors import MoiraeError, RoleLost, RoleTaken

_QUERIES = sql.load("processes")
_LOG = structlog.get_logger()


class Role:
    """A role held by this process, as long as its connection lives. Raises `Taken` where another
    holds it.
    """

    def __init__(self, connection: Connection[Any], role: str, timeout: float) -> None:
        """`patience`: seconds to wait for a predecessor that is just ending."""
        self._connection = connection
        self._role = role
        self._acquire_lock(timeout)
        row = connection.execute(_QUERIES["take"], {"role": role, "pid": os.getpid()}).fetchone()
        assert row is not None
        self.epoch = int(row[0])

    def _acquire_lock(self, patience: float) -> None:
        deadline = time.monotonic() + patience
        while True:
            row = self._connection.execute(_QUERIES["lock"], {"role": self._role}).fetchone()
            if row is not None and row[0]:
                return
            if time.monotonic() > deadline:
                raise RoleTaken(f"another {self._role} process of this workspace is running")
            time.sleep(0.2)

    @classmethod
    def acquire_numbered(cls, connection: Connection[Any], role: str, max_processes: int) -> "Role":
        """The first free one of a role that several processes may have: `recall`, `recall 2` and so
        on.
        """
        for number in range(1, max_processes + 1):
            with suppress(RoleTaken):
                return cls(connection, role if number == 1 else f"{role} {number}", 0.0)
        raise RoleTaken(f"{max_processes} {role} processes of this workspace are running")

    def fence(self) -> None:
        """Raises `Replaced` where another process has taken the role. To be called before what
        cannot be undone.
        """
        row = self._connection.execute(_QUERIES["epoch"], {"role": self._role}).fetchone()
        if row is None or row[0] != self.epoch:
            raise RoleLost(f"another {self._role} process has taken over")

    def reattach(self, connection: Connection[Any]) -> None:
        """Hold it over another connection. Raises `Replaced`, or `Taken` where the one before still
        has it.
        """
        self._connection = connection
        self.fence()
        self._acquire_lock(0.0)
        self.fence()

    def heartbeat(self, state: str, first_commit_seconds: float | None = None) -> None:
        """Say that the process lives, and what it does."""
        values = {"role": self._role, "epoch": self.epoch, "state": state}
        self._connection.execute(
            _QUERIES["beat"], {**values, "first_commit_seconds": first_commit_seconds}
        )

    def fail(self, error: str) -> None:
        """Store why the process ends."""
        values = {"role": self._role, "epoch": self.epoch, "error": sql.replace_nul(error[:2000])}
        self._connection.execute(_QUERIES["fail"], values)


class ReconnectingRole:
    """A role of a process that goes on while PostgreSQL is away: it connects and takes the role
    again afterwards.
    """

    def __init__(self, connect: Callable[[], Connection[Any]], role: str, timeout: float) -> None:
        """As `Role`."""
        self._connect = connect
        self._role_name = role
        self.connection = connect()
        self._role = Role(self.connection, role, timeout)
        self._is_disconnected = False

    def heartbeat(self, state: str) -> None:
        """Say that the process lives, as soon as it can be said. Raises `Replaced`."""
        try:
            if self.connection.closed:
                self._reconnect()
            self._role.heartbeat(state)
            self._is_disconnected = False
        except RoleLost:
            raise
        except (psycopg.Error, MoiraeError) as error:
            if not self._is_disconnected:
                _LOG.warning(
                    "database is away",
                    action="database_away",
                    process=self._role_name,
                    error=str(error),
                )
            self._is_disconnected = True

    def mark_ended(self) -> None:
        """Say that the process ends, where that can be said."""
        with suppress(psycopg.Error):
            self._role.heartbeat("ended")

    def fail(self, error: str) -> None:
        """Store why the process ends."""
        self._role.fail(error)

    def _reconnect(self) -> None:
        connection = self._connect()
        try:
            self._role.reattach(connection)
        except BaseException:
            connection.close()
            raise
        self.connection = connection
        _LOG.info("database is back", action="database_back", process=self._role_name)


@contextmanager
def failure_recorded(role: Role | ReconnectingRole) -> Iterator[None]:
    """Where the process ends with an error whose message is for people, store it with the role:
    `status` shows it.
    """
    try:
        yield
    except (MoiraeError, ArchiverError) as error:
        with suppress(psycopg.Error):
            role.fail(str(error))
        raise


def list_processes(connection: Connection[Any]) -> list[dict[str, Any]]:
    """What is known of each role's process."""
    cursor = connection.execute(_QUERIES["processes"])
    names = [column.name for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor]
