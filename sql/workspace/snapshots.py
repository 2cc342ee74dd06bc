"""One state of the whole database, which other sessions and programs can read, too."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from psycopg import IsolationLevel

from sql.connection import Connection
from sql.gateway import Gateway


@dataclass(frozen=True, slots=True)
class _Exported:
    snapshot: str
    taken_at: datetime


class DatabaseSnapshot(Gateway):
    """A snapshot. `id`: its name for `pg_dump --snapshot`. `taken_at`: its time, by the clock of
    the server.
    """

    queries = "snapshots"

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        exported = self._record(_Exported, "export")
        assert exported is not None
        self.id = exported.snapshot
        self.taken_at = exported.taken_at

    def count_archived(self, unit_ids: Collection[int]) -> int:
        """How many of the source units of some ledger ids are archived."""
        count: int = self._value("count_done", ids=list(unit_ids))
        return count

    def list_open_batches(self) -> list[tuple[str, str]]:
        """Stream and name of the batches of landing folders that were begun and not archived."""
        return [(stream, unit) for stream, unit in self._execute("list_open_batches").fetchall()]

    def last_migration(self) -> int:
        """The number of the newest migration of the database."""
        number: int = self._value("last_migration")
        return number


@contextmanager
def read_snapshot(connection: Connection) -> Iterator[DatabaseSnapshot]:
    """A snapshot for as long as the block runs. All statements of the connection read it."""
    connection.isolation_level = IsolationLevel.REPEATABLE_READ
    connection.read_only = True
    try:
        with connection.transaction():
            yield DatabaseSnapshot(connection)
    finally:
        if not connection.closed:
            connection.isolation_level = None
            connection.read_only = None
