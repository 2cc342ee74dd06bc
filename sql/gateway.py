"""What all gateways share: named statements over one connection, rows as records."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from psycopg import Cursor
from psycopg.rows import class_row, scalar_row
from psycopg.sql import SQL

from sql.connection import Connection
from sql.loader import load
from sql.values import to_json_rows

Record = TypeVar("Record")

_MAX_JSON_ROWS = 5_000  # rows of one statement


class Gateway:
    """The statements of one file in `queries/`, on one connection.

    The caller owns the transaction; outside one, each statement is committed. Methods raise
    psycopg's errors (`sql.DatabaseError`).
    """

    # The name of the file in `queries/`, without `.sql`.
    queries: ClassVar[str]

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def _execute(self, statement: str, **values: Any) -> Cursor[Any]:
        return self._connection.execute(load(self.queries)[statement], values)

    def _execute_many(self, statement: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """One round trip for many rows."""
        with self._connection.cursor() as cursor:
            cursor.executemany(load(self.queries)[statement], rows)

    def _execute_rows(self, statement: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Statements for up to thousands of rows each, which they read from the JSON text `rows`.

        A tenth of the processor time of this process that a statement for each row takes.
        """
        for start in range(0, len(rows), _MAX_JSON_ROWS):
            self._execute(statement, rows=to_json_rows(rows[start : start + _MAX_JSON_ROWS]))

    def _records(self, record: type[Record], statement: str, **values: Any) -> list[Record]:
        """All rows as records, whose fields are named like the columns."""
        with self._connection.cursor(row_factory=class_row(record)) as cursor:
            return cursor.execute(load(self.queries)[statement], values).fetchall()

    def _record(self, record: type[Record], statement: str, **values: Any) -> Record | None:
        """The first row as a record; None without rows."""
        with self._connection.cursor(row_factory=class_row(record)) as cursor:
            return cursor.execute(load(self.queries)[statement], values).fetchone()

    def _stream(self, record: type[Record], statement: str, **values: Any) -> Iterator[Record]:
        """Rows as records, fetched in batches while they are read."""
        with self._connection.cursor(row_factory=class_row(record)) as cursor:
            yield from cursor.stream(load(self.queries)[statement], values)

    def _column(self, statement: str, **values: Any) -> list[Any]:
        """The first column of all rows."""
        with self._connection.cursor(row_factory=scalar_row) as cursor:
            return cursor.execute(load(self.queries)[statement], values).fetchall()

    def _value(self, statement: str, **values: Any) -> Any:
        """The first column of the first row; None without rows."""
        with self._connection.cursor(row_factory=scalar_row) as cursor:
            return cursor.execute(load(self.queries)[statement], values).fetchone()

    def _count(self, statement: str, **values: Any) -> int:
        """The number of rows of a statement."""
        query = SQL("SELECT count(*) FROM ({}) AS listed").format(load(self.queries)[statement])
        with self._connection.cursor(row_factory=scalar_row) as cursor:
            count = cursor.execute(query, values).fetchone()
        return int(count or 0)

    def _pairs(self, statement: str, **values: Any) -> dict[Any, Any]:
        """Rows of two columns as a mapping of the first to the second."""
        return dict(self._execute(statement, **values).fetchall())
