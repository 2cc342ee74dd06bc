"""Batches that were interrupted between their appends and their record in the ledger.

The next reading of their units recognises the rows that it reads again. A file may have changed
meanwhile, or be gone: its rows that are in the archive count all the same.
"""

from collections.abc import Mapping

import pyarrow.compute as pc

import sql
from archiver.delta import StreamTable
from archiver.errors import LogDamaged
from sql.archive import InterruptedUnitRow, StreamGateway, UnitGateway


class InterruptedBatches:
    """Counts the rows that interrupted batches have appended for the units they left unfinished.

    The ledger holds up to which append of each stream it counts rows.
    """

    def __init__(self, connection: sql.Connection, tables: Mapping[str, StreamTable]) -> None:
        self._connection = connection
        self._streams = StreamGateway(connection)
        self._units = UnitGateway(connection)
        self._tables = tables
        self._recorded: dict[str, int | None] = {}
        self._is_open = False

    def begin_batch(self) -> None:
        """Count what the batch before has appended, if it was interrupted."""
        if self._is_open:
            self.count()
        self._is_open = True

    def record_appends(self) -> None:
        """The ledger counts all appends: part of the transaction that finishes a batch."""
        for stream, table in self._tables.items():
            if self._recorded.get(stream) != table.append_count:
                self._streams.put_appends(stream, table.append_count)
                self._recorded[stream] = table.append_count

    def end_batch(self) -> None:
        """The batch is recorded."""
        self._is_open = False

    def count(self) -> None:
        """Count the appended rows that the ledger does not count.

        Raises `LogDamaged` if a table has fewer appends than the ledger counts.
        """
        with self._connection.transaction():
            self._recorded = self._streams.list_appends()
            for stream, table in self._tables.items():
                table.continue_appends()
                recorded = self._recorded.get(stream)
                if recorded is None:
                    continue
                if recorded > table.append_count:
                    raise LogDamaged(
                        f"{table.storage}: has {table.append_count:,} appends, {recorded:,} "
                        "according to the ledger: it was lost, or is older than the database: run "
                        "`moirae doctor --repair --dry-run`"
                    )
                if recorded < table.append_count:
                    self._units.add_interrupted(_count_rows(table, recorded))
            self.record_appends()


def _count_rows(table: StreamTable, recorded: int) -> list[InterruptedUnitRow]:
    """The rows of each unit after an append."""
    rows = table.read_appended_since(recorded, ["_unit", "_late"])
    late = pc.cast(rows["_late"], "int64")
    counts = (
        rows.set_column(1, "_late", late)
        .group_by("_unit")
        .aggregate([("_late", "count"), ("_late", "sum")])
    )
    return [
        InterruptedUnitRow(row["_unit"], row["_late_count"], row["_late_sum"])
        for row in counts.to_pylist()
    ]
