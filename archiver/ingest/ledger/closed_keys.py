"""The keys for which sources have closed event time, in the ledger."""

from collections.abc import Mapping, Sequence

import sql
from archiver.ingest.closed_keys import ClosedKeys, drop_passed
from archiver.times import Micros, from_micros, to_micros
from sql.archive import ClosedKeyGateway, ClosedKeyRow

Source = tuple[str, str]
"""A stream and a partition of its topic; empty: it has none."""


class ClosedKeyLedger:
    """The closed keys of all streams on one connection. The caller owns the transaction.

    `by_source`: those whose time the watermark has not reached.
    """

    def __init__(self, connection: sql.Connection, columns: Mapping[str, Sequence[str]]) -> None:
        """`columns`: the key columns of each stream; keys of other columns are ignored."""
        self._gateway = ClosedKeyGateway(connection)
        self._columns = columns
        self.by_source: dict[Source, ClosedKeys] = {}
        by_source: dict[Source, dict[tuple[str | None, ...], Micros]] = {}
        for row in self._gateway.list_all():
            if list(row.columns) == list(columns.get(row.stream, ())):
                keys = by_source.setdefault((row.stream, row.partition), {})
                keys[tuple(row.key)] = to_micros(row.closed)
        self.by_source.update(by_source)

    def put(self, source: Source, closed: ClosedKeys) -> None:
        """Store what a unit of a source has closed."""
        stream, partition = source
        columns = list(self._columns[stream])
        self._gateway.put(
            ClosedKeyRow(stream, partition, columns, list(key), from_micros(ts))
            for key, ts in closed.items()
        )

    def delete_passed(
        self, source: Source, closed: ClosedKeys, watermark: Micros | None
    ) -> ClosedKeys:
        """Delete the keys whose time the watermark of a source has reached; returns the others."""
        remaining = drop_passed(closed, watermark)
        if watermark is not None and len(remaining) < len(closed):
            self._gateway.delete_passed(*source, from_micros(watermark))
        return remaining
