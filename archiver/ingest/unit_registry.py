"""Records source units in the ledger before they are read, with the clock of their first read."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter

import sql
from archiver.ingest.engines import RegisteredUnit
from archiver.ingest.source_units import SourceUnit
from archiver.times import Micros, from_micros, optional_micros, to_micros
from sql.archive import OpenedFileRow, StreamGateway, UnitGateway


class UnitRegistry:
    """Registers the units of one process.

    `clocks`: by stream, the newest clock at which a unit was first read, in microseconds.
    """

    def __init__(self, connection: sql.Connection, clocks: Mapping[str, Micros]) -> None:
        self._connection = connection
        self._units = UnitGateway(connection)
        self._streams = StreamGateway(connection)
        self._clocks = dict(clocks)

    def newest_clock(self, stream: str) -> Micros | None:
        """The newest clock at which a unit of a stream was first read; None: none was."""
        return self._clocks.get(stream)

    def clock(self, stream: str, now: Micros) -> Micros:
        """The clock of a unit of a stream that is first read now: it never goes back."""
        return max(now, self._clocks.get(stream, now))

    def register(self, units: Sequence[SourceUnit], now: Micros) -> list[RegisteredUnit | None]:
        """Record units, and the clock of those that were not read before; None: it is finished."""
        registered: list[RegisteredUnit | None] = []
        with self._connection.transaction():
            for stream, stream_units in groupby(units, attrgetter("stream")):
                registered += self._register(stream, list(stream_units), self.clock(stream, now))
        return registered

    def _register(
        self, stream: str, units: Sequence[SourceUnit], clock: Micros
    ) -> list[RegisteredUnit | None]:
        at = from_micros(clock)
        files: dict[str, OpenedFileRow] = {}
        for unit in units:
            if unit.partition is None:
                row = OpenedFileRow(unit.name)
                if unit.stamp is not None:
                    row = OpenedFileRow(unit.name, unit.place, unit.stamp)
                files.setdefault(unit.name, row)
        opened = self._units.open_files(stream, list(files.values()), clock=at) if files else {}
        for unit in units:
            if unit.partition is not None:
                # An interrupted read may have begun a range with another last record.
                prefix = unit.name.rpartition("-")[0] + "-"
                self._units.rename_open_range(
                    stream, unit.name, partition=unit.partition, prefix=prefix
                )
                opened[unit.name] = self._units.open(
                    stream, unit.name, clock=at, partition=unit.partition
                )
        if clock != self._clocks.get(stream) and not all(row.done for row in opened.values()):
            self._streams.raise_clock(stream, at)
            self._clocks[stream] = clock
        return [
            None if row.done else RegisteredUnit(row.id, optional_micros(row.clock))
            for row in (opened[unit.name] for unit in units)
        ]

    def partition_clocks(self, stream: str) -> dict[str, Micros]:
        """The clocks of the ranges that were begun and not finished, by partition."""
        clocks = self._units.list_partition_clocks(stream)
        return {partition: to_micros(clock) for partition, clock in clocks.items()}
