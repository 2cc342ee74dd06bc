"""Records source units in the ledger before they are read, with the clock of their first read."""

from collections.abc import Mapping

import sql
from archiver.ingest.engines import RegisteredUnit
from archiver.ingest.source_units import SourceUnit
from archiver.times import Micros, from_micros, optional_micros, to_micros
from sql.archive import StreamGateway, UnitGateway


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

    def register(self, unit: SourceUnit, now: Micros) -> RegisteredUnit | None:
        """Record a unit, and the clock unless it was read before; None: it is finished."""
        stream = unit.stream
        clock = self.clock(stream, now)
        with self._connection.transaction():
            if unit.partition is not None:
                # An interrupted read may have begun a range with another last record.
                self._units.rename_open_range(
                    stream,
                    unit.name,
                    partition=unit.partition,
                    prefix=unit.name.rpartition("-")[0] + "-",
                )
            opened = self._units.open(
                stream, unit.name, clock=from_micros(clock), partition=unit.partition
            )
            if not opened.done and clock != self._clocks.get(stream):
                self._streams.raise_clock(stream, from_micros(clock))
        if opened.done:
            return None
        self._clocks[stream] = clock
        return RegisteredUnit(opened.id, optional_micros(opened.clock))

    def partition_clocks(self, stream: str) -> dict[str, Micros]:
        """The clocks of the ranges that were begun and not finished, by partition."""
        clocks = self._units.list_partition_clocks(stream)
        return {partition: to_micros(clock) for partition, clock in clocks.items()}
