"""One process of a role at a time: who holds the lock writes, and whoever was replaced finds out before it does."""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
import structlog
from psycopg import Connection

import sql
from moirae.errors import MoiraeError

_QUERIES = sql.load("processes")
_LOG = structlog.get_logger()


class Replaced(MoiraeError):
    """Another process of this role has started; this one must not write any more."""


class Taken(MoiraeError):
    """Another process of this workspace holds the role."""


class Role:
    """A role held by this process, as long as its connection lives. Raises `Taken` where another holds it."""

    def __init__(self, connection: Connection[Any], role: str, patience: float) -> None:
        """`patience`: seconds to wait for a predecessor that is just ending."""
        self._connection = connection
        self._role = role
        self._lock(patience)
        row = connection.execute(_QUERIES["take"], {"role": role, "pid": os.getpid()}).fetchone()
        assert row is not None
        self.epoch = int(row[0])

    def _lock(self, patience: float) -> None:
        deadline = time.monotonic() + patience
        while True:
            row = self._connection.execute(_QUERIES["lock"], {"role": self._role}).fetchone()
            if row is not None and row[0]:
                return
            if time.monotonic() > deadline:
                raise Taken(f"another {self._role} process of this workspace is running")
            time.sleep(0.2)

    @classmethod
    def of_several(cls, connection: Connection[Any], role: str, most: int) -> "Role":
        """The first free one of a role that several processes may have: `recall`, `recall 2` and so on."""
        for number in range(1, most + 1):
            with suppress(Taken):
                return cls(connection, role if number == 1 else f"{role} {number}", 0.0)
        raise Taken(f"{most} {role} processes of this workspace are running")

    def fence(self) -> None:
        """Raises `Replaced` where another process has taken the role. To be called before what cannot be undone."""
        row = self._connection.execute(_QUERIES["epoch"], {"role": self._role}).fetchone()
        if row is None or row[0] != self.epoch:
            raise Replaced(f"another {self._role} process has taken over")

    def move(self, connection: Connection[Any]) -> None:
        """Hold it over another connection. Raises `Replaced`, or `Taken` where the one before still has it."""
        self._connection = connection
        self.fence()
        self._lock(0.0)
        self.fence()

    def beat(self, state: str, first_commit_seconds: float | None = None) -> None:
        """Say that the process lives, and what it does."""
        values = {"role": self._role, "epoch": self.epoch, "state": state}
        self._connection.execute(_QUERIES["beat"], {**values, "first_commit_seconds": first_commit_seconds})


class Kept:
    """A role of a process that goes on while PostgreSQL is away: it connects and takes the role again afterwards."""

    def __init__(self, connect: Callable[[], Connection[Any]], role: str, patience: float) -> None:
        """As `Role`."""
        self._connect = connect
        self._name = role
        self.connection = connect()
        self._role = Role(self.connection, role, patience)
        self._away = False

    def beat(self, state: str) -> None:
        """Say that the process lives, as soon as it can be said. Raises `Replaced`."""
        try:
            if self.connection.closed:
                self._again()
            self._role.beat(state)
            self._away = False
        except Replaced:
            raise
        except (psycopg.Error, MoiraeError) as error:
            if not self._away:
                _LOG.warning("database is away", action="database_away", process=self._name, error=str(error))
            self._away = True

    def end(self) -> None:
        """Say that the process ends, where that can be said."""
        with suppress(psycopg.Error):
            self._role.beat("ended")

    def _again(self) -> None:
        connection = self._connect()
        try:
            self._role.move(connection)
        except BaseException:
            connection.close()
            raise
        self.connection = connection
        _LOG.info("database is back", action="database_back", process=self._name)


def processes(connection: Connection[Any]) -> list[dict[str, Any]]:
    """What is known of each role's process."""
    cursor = connection.execute(_QUERIES["processes"])
    names = [column.name for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor]
