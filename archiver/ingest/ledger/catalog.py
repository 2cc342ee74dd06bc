"""The archive's metadata in PostgreSQL as values of the archive.

Chunks, read progress and the ingest ledger.
"""

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import sql
from archiver.chunks import FIRST_CHUNK, Chunk, ChunkRecord, ChunkState
from archiver.delta import SettledPlaces
from archiver.ingest.keys_ahead import KeyAhead
from archiver.ingest.ledger.topics import load_current_partitions, to_progress
from archiver.ingest.watermarks import ReadProgress, watermark
from archiver.times import Micros, from_micros, optional_datetime, to_micros
from sql.archive import (
    ChunkGateway,
    DeadLetterGateway,
    FileVersionRow,
    FinishedUnitRow,
    StreamGateway,
    UnitGateway,
)
from sql.topics import TopicGateway


@dataclass(frozen=True)
class Counters:
    """Number of records of a source unit by outcome.

    Each record in `read` is counted in exactly one other counter. `late` is a part of `archived`,
    `late_by_ahead` of `late`: rows that are late because the watermark followed rows ahead of the
    clock. `tombstones`: records without a value, `punctuations`: records that close time; neither
    are rows, nor in `read`. `replayed`, `replayed_late`: of `archived` and `late`, the rows that an
    interrupted reading had archived.
    `erased_again`: of `duplicates`, those that repeat an erased row.
    """

    read: int = 0
    archived: int = 0
    late: int = 0
    late_by_ahead: int = 0
    duplicates: int = 0
    malformed: int = 0
    quarantined: int = 0
    conflicts: int = 0
    expired: int = 0
    tombstones: int = 0
    punctuations: int = 0
    replayed: int = 0
    replayed_late: int = 0
    erased_again: int = 0

    def __add__(self, other: "Counters") -> "Counters":
        return Counters(*map(operator.add, self.values(), other.values()))

    def __sub__(self, other: "Counters") -> "Counters":
        return Counters(*map(operator.sub, self.values(), other.values()))

    def values(self) -> Sequence[int]:
        """The counters in the order of their declaration."""
        return tuple(vars(self).values())


class Catalog:
    """Chunks, streams and source units on one connection. The caller owns the transaction."""

    def __init__(self, connection: sql.Connection) -> None:
        self._chunks = ChunkGateway(connection)
        self._streams = StreamGateway(connection)
        self._units = UnitGateway(connection)
        self._dead_letters = DeadLetterGateway(connection)
        self._topics = TopicGateway(connection)

    def chunks(self) -> list[Chunk]:
        """All chunks, oldest first. The first call on an empty database creates the first chunk."""
        chunks = []
        for row in self._chunks.list_all():
            chunks.append(Chunk(row.id, row.from_ts, row.to_ts, cast(ChunkState, row.state)))
        if chunks:
            return chunks
        self.put_chunks([FIRST_CHUNK])
        return [FIRST_CHUNK]

    def chunk_signature(self) -> tuple[int, ...]:
        """Differs from what it was before if chunks have begun, ended or expired since."""
        return self._chunks.get_signature()

    def put_chunks(self, chunks: Sequence[Chunk]) -> None:
        """Insert new chunks, and set the end of chunks that had none. Pass older chunks first."""
        for chunk in chunks:
            self._chunks.put(
                chunk.id,
                from_ts=optional_datetime(chunk.from_ts),
                to_ts=optional_datetime(chunk.to_ts),
                state=chunk.state,
            )

    def chunk_records(self) -> list[ChunkRecord]:
        """All chunks with their completed maintenance tasks, oldest first."""
        rows = self._chunks.list_maintenance()
        # Separate statements: chunks may be added or deleted between the two queries.
        chunks_by_id = {chunk.id: chunk for chunk in self.chunks()}
        records = []
        for row in rows:
            if row.id in chunks_by_id:
                chunk = chunks_by_id[row.id]
                records.append(
                    ChunkRecord(
                        chunk,
                        row.version,
                        row.completed_versions,
                        row.expired_seconds,
                        row.ended_seconds,
                    )
                )
        return records or list(map(ChunkRecord, chunks_by_id.values()))

    def stream_ends(self) -> dict[str, Micros]:
        """By stream, the event time before which its rows have expired while others have not."""
        return self._chunks.stream_ends()

    def insert_stream(self, stream: str) -> None:
        """Register a declared stream, unless it is registered."""
        self._streams.insert(stream)

    def advance(self, stream: str, event_time: Micros, *, ahead: bool) -> None:
        """Advance a stream without data; see `StreamGateway.advance`."""
        self._streams.advance(stream, from_micros(event_time), ahead=ahead)

    def stream_progress(self) -> dict[str, ReadProgress]:
        """How far each stream has been read, by stream name."""
        progress_by_stream: dict[str, ReadProgress] = {}
        for row in self._streams.list_all():
            progress_by_stream[row.name] = to_progress(row)
        return progress_by_stream

    def first_times(self) -> dict[str, Micros]:
        """The event time of the first row of each stream where it is stored."""
        times: dict[str, Micros] = {}
        for row in self._streams.list_all():
            if row.first is not None:
                times[row.name] = to_micros(row.first)
        return times

    def settled_places(self) -> dict[str, SettledPlaces]:
        """Which rows no source will be read again for, by stream."""
        places_by_stream: dict[str, SettledPlaces] = {}
        for row in self._streams.list_settled():
            places_by_stream[row.name] = SettledPlaces(row.appends, frozenset(row.open_units))
        return places_by_stream

    def put_first_time(self, stream: str, first: Micros) -> None:
        """Store the event time of the first row of a stream, once."""
        self._streams.put_first(stream, from_micros(first))

    def stream_clocks(self) -> dict[str, Micros]:
        """The newest clock at which a unit was first read, by stream; none for unread streams."""
        clocks: dict[str, Micros] = {}
        for row in self._streams.list_all():
            if row.clock is not None:
                clocks[row.name] = to_micros(row.clock)
        return clocks

    def keys_ahead(self) -> dict[str, list[KeyAhead]]:
        """The keys whose rows are furthest ahead of the clock, by stream, the furthest first."""
        keys_by_stream: dict[str, list[KeyAhead]] = {}
        for row in self._streams.list_all():
            keys: list[KeyAhead] = []
            for entry in row.keys_ahead:
                key = tuple((column, value) for column, value in entry["key"])
                keys.append(KeyAhead(key, entry["ahead"], entry["at"]))
            keys_by_stream[row.name] = keys
        return keys_by_stream

    def put_keys_ahead(self, stream: str, keys: Sequence[KeyAhead]) -> None:
        """Replace the keys whose rows are furthest ahead of the clock."""
        self._streams.put_keys_ahead(stream, list(map(vars, keys)))

    def watermarks(self, lateness: Mapping[str, Micros]) -> dict[str, Micros | None]:
        """The watermark of each stream in `lateness`; see `watermarks.watermark`."""
        progress_by_stream = self.stream_progress()
        partitions = load_current_partitions(self._topics)
        watermarks: dict[str, Micros | None] = {}
        for stream, stream_lateness in lateness.items():
            progress = progress_by_stream.get(stream, ReadProgress())
            watermarks[stream] = watermark(progress, partitions.get(stream, {}), stream_lateness)
        return watermarks

    def finish_units(self, units: Iterable[FinishedUnitRow]) -> None:
        """Mark source units as archived."""
        self._units.finish(units)

    def put_version(self, stream: str, version: FileVersionRow) -> None:
        """Store the version of a file that was read again."""
        self._units.put_version(stream, version)

    def add_deleted_rows(self, rows_by_unit: Mapping[tuple[str, int], int]) -> None:
        """Count rows that were deleted with their chunk, by stream and source unit."""
        self._units.add_deleted_rows(rows_by_unit)

    def record_retried(self, unit: int, lines: Sequence[int], change: Counters) -> None:
        """Delete the retried dead letters of a unit, and add `change` to the counters of the unit."""
        self._dead_letters.delete(unit, lines)
        self._units.add_counters(unit, vars(change))

    def raise_newest(
        self, stream: str, newest: Micros | None, newest_not_ahead: Micros | None
    ) -> None:
        """Raise the newest event times of a stream; see `ReadProgress.with_rows`."""
        if newest is not None:
            self._streams.raise_newest(
                stream, from_micros(newest), optional_datetime(newest_not_ahead)
            )
