"""The outcome of a batch. No I/O."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from archiver.delta import DataFile
from archiver.ingest.closed_keys import ClosedKeys, merge_closed
from archiver.ingest.engines import ArchivedRows
from archiver.ingest.open_unit import OpenUnit


@dataclass(frozen=True)
class IngestResult:
    """The outcome of a batch: what was archived by stream, and the partitions that had records.

    `sources_not_ahead`: the streams that had rows not ahead of the clock, with their partitions;
    partition None: a stream without partitions. `closed_keys`: by stream, for which keys its records
    have closed event time.
    """

    archived: Mapping[str, ArchivedRows]
    partitions: frozenset[str] = frozenset()
    sources_not_ahead: frozenset[tuple[str, str | None]] = frozenset()
    closed_keys: Mapping[str, ClosedKeys] = field(default_factory=dict)

    @classmethod
    def from_units(
        cls, archived: Mapping[str, ArchivedRows], open_units: Iterable[OpenUnit]
    ) -> "IngestResult":
        """The outcome of a batch of units that were read."""
        partitions: set[str] = set()
        sources_not_ahead: set[tuple[str, str | None]] = set()
        closed_keys: dict[str, ClosedKeys] = {}
        for open_unit in open_units:
            unit = open_unit.unit
            if unit.partition is not None:
                partitions.add(unit.partition)
            if open_unit.newest_not_ahead is not None:
                sources_not_ahead.add((unit.stream, unit.partition))
            if open_unit.closed_keys:
                earlier = closed_keys.get(unit.stream, {})
                closed_keys[unit.stream] = merge_closed(earlier, open_unit.closed_keys)
        return cls(archived, frozenset(partitions), frozenset(sources_not_ahead), closed_keys)

    @property
    def on_time(self) -> dict[str, pa.Table]:
        """By stream, the archived on-time rows that are in the memory of this process."""
        tables: dict[str, pa.Table] = {}
        for stream, rows in self.archived.items():
            if rows.on_time is not None:
                tables[stream] = rows.on_time
        return tables

    @property
    def files(self) -> dict[str, Sequence[DataFile]]:
        """By stream, the files that executors wrote."""
        return {stream: rows.files for stream, rows in self.archived.items() if rows.files}

    @property
    def streams_on_time(self) -> frozenset[str]:
        """The streams that may have got on-time rows."""
        streams = {stream for stream, rows in self.on_time.items() if len(rows)}
        return frozenset(streams.union(self.files))

    @property
    def appended_rows(self) -> int:
        """Number of rows appended, late ones too."""
        return sum(rows.appended_rows for rows in self.archived.values())
