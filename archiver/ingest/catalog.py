"""The archive's metadata in PostgreSQL: chunks, the read progress of streams, the ingest ledger."""

import operator
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import Any

from psycopg import Connection
from psycopg.rows import class_row, dict_row, scalar_row

import sql
from archiver.chunks import FIRST_CHUNK, Chunk, ChunkRecord, ChunkState, MaintenanceTask
from archiver.ingest.line_decoder import RefusedLine
from archiver.ingest.watermarks import PartitionProgress, ReadProgress, watermark
from archiver.times import optional_datetime, optional_micros

_QUERIES = sql.load("catalog")


@dataclass(frozen=True)
class Counters:
    """Number of records of a source unit by outcome.

    Each record in `read` is counted in exactly one other counter. `late` is a part of `archived`.
    """

    read: int = 0
    archived: int = 0
    late: int = 0
    duplicates: int = 0
    malformed: int = 0
    quarantined: int = 0
    conflicts: int = 0
    expired: int = 0

    def __add__(self, other: "Counters") -> "Counters":
        return Counters(*map(operator.add, self.values(), other.values()))

    def __sub__(self, other: "Counters") -> "Counters":
        return Counters(*map(operator.sub, self.values(), other.values()))

    def values(self) -> Sequence[int]:
        """The counters in the order of their declaration."""
        return tuple(vars(self).values())


@dataclass(frozen=True)
class DeadLetter:
    """A dead letter marked for retry. `fields`: the CSV header of its unit, None if not CSV."""

    stream: str
    unit_id: int
    line: int
    reason: str
    raw: bytes
    fields: Sequence[str] | None


class Catalog:
    """Queries of the `catalog` gateway on one connection. The caller owns the transaction."""

    def __init__(self, connection: Connection[Any]) -> None:
        self._connection = connection

    def chunks(self) -> list[Chunk]:
        """All chunks, oldest first. The first call on an empty database creates the first chunk."""
        with self._connection.cursor(row_factory=class_row(Chunk)) as cursor:
            chunks = cursor.execute(_QUERIES["chunks"]).fetchall()
        if chunks:
            return chunks
        self.put_chunks([FIRST_CHUNK])
        return [FIRST_CHUNK]

    def put_chunks(self, chunks: Sequence[Chunk]) -> None:
        """Insert new chunks, and set the end of chunks that had none. Pass older chunks first."""
        for chunk in chunks:
            self._connection.execute(
                _QUERIES["put_chunk"],
                {
                    "id": chunk.id,
                    "from_ts": optional_datetime(chunk.from_ts),
                    "to_ts": optional_datetime(chunk.to_ts),
                    "state": chunk.state,
                },
            )

    def chunk_records(self) -> list[ChunkRecord]:
        """All chunks with their completed maintenance tasks, oldest first."""
        rows = self._connection.execute(_QUERIES["kept"]).fetchall()
        # Separate statements: chunks may be added or deleted between the two queries.
        chunks_by_id = {chunk.id: chunk for chunk in self.chunks()}
        records = []
        for chunk_id, version, completed_versions, expired_seconds in rows:
            if chunk_id in chunks_by_id:
                chunk = chunks_by_id[chunk_id]
                records.append(ChunkRecord(chunk, version, completed_versions, expired_seconds))
        return records or list(map(ChunkRecord, chunks_by_id.values()))

    def present_chunks(self) -> set[int]:
        """The ids of the chunks in state `present`."""
        return set(self._scalars("present", {}))

    def set_chunk_state(self, chunk: int, state: ChunkState) -> None:
        """Store a chunk's new state, and the time at which it was closed or expired."""
        self._connection.execute(_QUERIES["become"], {"id": chunk, "state": state})

    def record_completed(self, task: MaintenanceTask) -> bool:
        """Record a completed task. False if this version, or a later one, was recorded before."""
        values = {"chunk": task.chunk, "name": task.name, "version": task.version}
        return self._connection.execute(_QUERIES["prepared"], values).fetchone() is not None

    def record_deleted_rows(self, rows: Mapping[tuple[str, int], int]) -> None:
        """Add the number of rows deleted with a chunk, by stream and source unit id."""
        values = {
            "streams": list(map(itemgetter(0), rows)),
            "units": list(map(itemgetter(1), rows)),
            "rows": list(rows.values()),
        }
        self._connection.execute(_QUERIES["forget_rows"], values)

    def record_late_rows(self, chunks: Collection[int]) -> None:
        """Raise the version of chunks that received late rows: earlier answers over them differ."""
        self._connection.execute(_QUERIES["came_late"], {"ids": list(chunks)})

    def chunk_versions(self) -> dict[int, int]:
        """How many times late rows were added to each chunk, by chunk id."""
        return dict(self._connection.execute(_QUERIES["versions"]).fetchall())

    def add_streams(self, names: Sequence[str]) -> None:
        """Register declared streams. Streams that are registered already are skipped."""
        for name in names:
            self._connection.execute(_QUERIES["add_stream"], {"name": name})

    def stream_progress(self) -> dict[str, ReadProgress]:
        """How far each stream has been read, by stream name."""
        progress_by_stream: dict[str, ReadProgress] = {}
        for name, newest, advanced in self._connection.execute(_QUERIES["streams"]):
            progress_by_stream[name] = _read_progress(newest, advanced)
        return progress_by_stream

    def partitions(self) -> dict[str, dict[str, PartitionProgress]]:
        """How far each partition has been read, by stream and partition name."""
        partitions: dict[str, dict[str, PartitionProgress]] = {}
        rows = self._connection.execute(_QUERIES["partitions"])
        for stream, name, next_record, newest, advanced in rows:
            progress = _read_progress(newest, advanced)
            partitions.setdefault(stream, {})[name] = PartitionProgress(next_record, progress)
        return partitions

    def watermarks(self, lateness: Mapping[str, int]) -> dict[str, int | None]:
        """The watermark of each stream in `lateness` (microseconds); see `watermarks.watermark`."""
        progress_by_stream = self.stream_progress()
        partitions = self.partitions()
        watermarks: dict[str, int | None] = {}
        for stream, stream_lateness in lateness.items():
            progress = progress_by_stream.get(stream, ReadProgress())
            watermarks[stream] = watermark(progress, partitions.get(stream, {}), stream_lateness)
        return watermarks

    def put_partition(self, stream: str, name: str, partition: PartitionProgress) -> None:
        """Store how far a partition has been read. Values below the stored ones are ignored."""
        values = {
            "stream": stream,
            "partition": name,
            "next": partition.next,
            "newest": optional_datetime(partition.progress.newest),
            "advanced": optional_datetime(partition.progress.advanced),
        }
        self._connection.execute(_QUERIES["put_partition"], values)

    def advance(self, stream: str, event_time: int) -> None:
        """Advance a stream without data to an event time in microseconds."""
        values = {"name": stream, "advanced": optional_datetime(event_time)}
        self._connection.execute(_QUERIES["advance"], values)

    def open_unit(self, stream: str, unit: str) -> tuple[int, bool]:
        """The ledger id of a source unit, and whether the unit is finished. Creates its row."""
        values = {"stream": stream, "unit": unit}
        row = self._connection.execute(_QUERIES["open_unit"], values).fetchone()
        assert row is not None
        return row[0], row[1]

    def finish_unit(
        self,
        unit: int,
        stream: str,
        counters: Counters,
        newest: int | None,
        fields: Sequence[str] | None,
    ) -> None:
        """Mark a source unit as archived.

        `newest`: its newest event time in microseconds; None without rows. `fields`: the header of
        CSV lines; None for other formats.
        """
        values = {"id": unit, "newest": optional_datetime(newest), **vars(counters)}
        values["fields"] = None if fields is None else list(fields)
        self._connection.execute(_QUERIES["finish_unit"], values)
        self._advance_newest(stream, newest)

    def _advance_newest(self, stream: str, newest: int | None) -> None:
        if newest is not None:
            values = {"name": stream, "newest": optional_datetime(newest)}
            self._connection.execute(_QUERIES["move_newest"], values)

    def dead_letters_to_retry(self, streams: Sequence[str], limit: int) -> list[DeadLetter]:
        """Dead letters of the streams that are marked for retry, ordered by unit and line."""
        with self._connection.cursor(row_factory=class_row(DeadLetter)) as cursor:
            return cursor.execute(
                _QUERIES["letters_to_retry"], {"streams": list(streams), "limit": limit}
            ).fetchall()

    def record_retried(
        self, unit: int, stream: str, lines: Sequence[int], change: Counters, newest: int | None
    ) -> None:
        """Delete the retried dead letters of a unit, and add `change` to the counters of the unit.

        `newest`: the newest event time in microseconds of the rows archived by the retry, or None.
        """
        self._connection.execute(_QUERIES["drop_letters"], {"unit_id": unit, "lines": list(lines)})
        self._connection.execute(_QUERIES["change_counters"], {"id": unit, **vars(change)})
        self._advance_newest(stream, newest)

    def mark_for_retry(
        self, ids: Sequence[tuple[int, int]], stream: str | None, reason: str | None, limit: int
    ) -> list[tuple[int, int]]:
        """Mark dead letters for retry, and return the (unit, line) pairs of those marked.

        `ids` selects by (unit, line); an empty sequence selects all. `stream` and `reason` restrict
        the selection further, unless None.
        """
        values = {
            "named": bool(ids),
            "units": list(map(itemgetter(0), ids)),
            "lines": list(map(itemgetter(1), ids)),
            "stream": stream,
            "reason": reason,
            "most": limit,
        }
        return self._connection.execute(_QUERIES["mark_for_retry"], values).fetchall()

    def count_pending_retries(self, streams: Sequence[str] | None = None) -> int:
        """Number of dead letters marked for retry. `streams` None: of all streams."""
        names = None if streams is None else list(streams)
        (count,) = self._scalars("still_to_retry", {"streams": names})
        return int(count)

    def count_dead_letters(self, ids: Sequence[tuple[int, int]]) -> int:
        """Number of the (unit, line) pairs that are dead letters not marked for retry."""
        values = {
            "units": list(map(itemgetter(0), ids)),
            "lines": list(map(itemgetter(1), ids)),
        }
        (count,) = self._scalars("still_dead", values)
        return int(count)

    def put_dead_letters(self, unit: int, refused_lines: Sequence[RefusedLine]) -> None:
        """Store refused lines as dead letters. Lines stored by an earlier read are skipped."""
        if not refused_lines:
            return
        values = [_dead_letter_values(unit, refused) for refused in refused_lines]
        with self._connection.cursor() as cursor:
            cursor.executemany(_QUERIES["put_dead_letter"], values)

    def finished_units(self, stream: str, names: Collection[str] | None = None) -> set[str]:
        """The names of a stream's finished units; only those in `names`, unless None."""
        units = None if names is None else list(names)
        return set(self._scalars("done_units", {"stream": stream, "units": units}))

    def unit_counters(self, stream: str, units: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The counters of the finished units among `units`, by unit name.

        Units that were compacted (see `archiver.ingest.ledger_compaction`) are missing.
        """
        rows = self._rows("counters_of", {"stream": stream, "units": list(units)})
        return {row.pop("unit"): row for row in rows}

    def accounting(self) -> list[dict[str, Any]]:
        """Sums of all counters, one row per stream."""
        return self._rows("accounting", {})

    def dead_letters(
        self, stream: str | None, reason: str | None, limit: int
    ) -> list[dict[str, Any]]:
        """Dead letters, newest first. `stream` and `reason` filter, unless None."""
        return self._rows("dead_letters", {"stream": stream, "reason": reason, "limit": limit})

    def _rows(self, query: str, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        with self._connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(_QUERIES[query], values).fetchall()

    def _scalars(self, query: str, values: Mapping[str, Any]) -> list[Any]:
        """The first column of the result."""
        with self._connection.cursor(row_factory=scalar_row) as cursor:
            return cursor.execute(_QUERIES[query], values).fetchall()


def _read_progress(newest: datetime | None, advanced: datetime | None) -> ReadProgress:
    return ReadProgress(optional_micros(newest), optional_micros(advanced))


def _dead_letter_values(unit: int, refused: RefusedLine) -> dict[str, Any]:
    return {
        "unit_id": unit,
        "line": refused.line,
        "reason": refused.reason,
        # PostgreSQL text cannot hold NUL.
        "detail": refused.detail.replace("\x00", "\\0"),
        "raw": refused.raw,
    }
