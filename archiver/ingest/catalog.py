"""The archive's rows in PostgreSQL: the chunk catalog, how far streams have been read, the ingest ledger."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import Connection
from psycopg.rows import class_row, dict_row

import sql
from archiver.chunks import FIRST_CHUNK, Chunk, ChunkRecord, ChunkState, MaintenanceTask
from archiver.ingest.line_decoder import RefusedLine
from archiver.ingest.watermarks import PartitionProgress, ReadProgress, watermark
from archiver.times import optional_datetime, optional_micros

_QUERIES = sql.load("catalog")


@dataclass(frozen=True)
class Counters:
    """What became of the records of a source unit. Every record read is in exactly one of the others but `late`."""

    read: int = 0
    archived: int = 0
    late: int = 0
    duplicates: int = 0
    malformed: int = 0
    quarantined: int = 0
    conflicts: int = 0
    expired: int = 0

    def __add__(self, other: "Counters") -> "Counters":
        return Counters(*(a + b for a, b in zip(self.values(), other.values(), strict=True)))

    def __sub__(self, other: "Counters") -> "Counters":
        return Counters(*(a - b for a, b in zip(self.values(), other.values(), strict=True)))

    def values(self) -> Sequence[int]:
        """The counters in their order."""
        return tuple(vars(self).values())


@dataclass(frozen=True)
class DeadLetter:
    """A dead letter that is to be retried; `fields` of its unit, if that is CSV."""

    stream: str
    unit_id: int
    line: int
    reason: str
    raw: bytes
    fields: Sequence[str] | None


class Catalog:
    """Named queries on one connection. The caller owns the transaction."""

    def __init__(self, connection: Connection[Any]) -> None:
        self._connection = connection

    def chunks(self) -> list[Chunk]:
        """All chunks, oldest first; there is always at least one."""
        with self._connection.cursor(row_factory=class_row(Chunk)) as cursor:
            found = cursor.execute(_QUERIES["chunks"]).fetchall()
        if not found:
            self.put_chunks([FIRST_CHUNK])
        return found or [FIRST_CHUNK]

    def put_chunks(self, chunks: Sequence[Chunk]) -> None:
        """Publish new chunks and newly fixed ends, older ones first."""
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
        """All chunks with what was done for them, oldest first."""
        rows = self._connection.execute(_QUERIES["kept"]).fetchall()
        found = {
            chunk.id: chunk for chunk in self.chunks()
        }  # chunks come, and what has long left goes
        kept = [
            ChunkRecord(found[chunk], version, done, expired)
            for chunk, version, done, expired in rows
            if chunk in found
        ]
        return kept or [ChunkRecord(chunk) for chunk in found.values()]

    def present_chunks(self) -> set[int]:
        """The chunks that are written to."""
        return {row[0] for row in self._connection.execute(_QUERIES["present"])}

    def set_chunk_state(self, chunk: int, state: ChunkState) -> None:
        """A chunk's new state."""
        self._connection.execute(_QUERIES["become"], {"id": chunk, "state": state})

    def record_completed(self, task: MaintenanceTask) -> bool:
        """Work is done; False: this was known."""
        values = {"chunk": task.chunk, "name": task.name, "version": task.version}
        return self._connection.execute(_QUERIES["prepared"], values).fetchone() is not None

    def record_deleted_rows(self, rows: Mapping[tuple[str, int], int]) -> None:
        """Rows of source units, by stream and id, that leave with their chunk."""
        streams, units = [stream for stream, _ in rows], [unit for _, unit in rows]
        self._connection.execute(
            _QUERIES["forget_rows"],
            {"streams": streams, "units": units, "rows": list(rows.values())},
        )

    def record_late_rows(self, chunks: Collection[int]) -> None:
        """Rows came late into chunks: who has read them before has not seen all."""
        self._connection.execute(_QUERIES["came_late"], {"ids": list(chunks)})

    def chunk_versions(self) -> dict[int, int]:
        """How often rows came late into each chunk."""
        return dict(self._connection.execute(_QUERIES["versions"]).fetchall())

    def add_streams(self, names: Sequence[str]) -> None:
        """Make the streams known."""
        for name in names:
            self._connection.execute(_QUERIES["add_stream"], {"name": name})

    def stream_progress(self) -> dict[str, ReadProgress]:
        """How far each stream has been read."""
        rows = self._connection.execute(_QUERIES["streams"])
        return {name: ReadProgress(optional_micros(n), optional_micros(a)) for name, n, a in rows}

    def partitions(self) -> dict[str, dict[str, PartitionProgress]]:
        """How far each partition of a stream has been read, by stream."""
        found: dict[str, dict[str, PartitionProgress]] = {}
        for stream, name, following, newest, advanced in self._connection.execute(
            _QUERIES["partitions"]
        ):
            progress = ReadProgress(optional_micros(newest), optional_micros(advanced))
            found.setdefault(stream, {})[name] = PartitionProgress(following, progress)
        return found

    def watermarks(self, lateness: Mapping[str, int]) -> dict[str, int | None]:
        """See `archiver.ingest.watermarks.watermark`; for streams with their lateness in microseconds."""
        progress = self.stream_progress()
        partitions = self.partitions()
        return {
            stream: watermark(
                progress.get(stream, ReadProgress()), partitions.get(stream, {}), span
            )
            for stream, span in lateness.items()
        }

    def put_partition(self, stream: str, name: str, partition: PartitionProgress) -> None:
        """A partition has been read so far."""
        newest, advanced = (
            optional_datetime(v) for v in (partition.progress.newest, partition.progress.advanced)
        )
        values = {"stream": stream, "partition": name, "next": partition.next}
        self._connection.execute(
            _QUERIES["put_partition"], {**values, "newest": newest, "advanced": advanced}
        )

    def advance(self, stream: str, event_time: int) -> None:
        """Move a stream on without data."""
        self._connection.execute(
            _QUERIES["advance"], {"name": stream, "advanced": optional_datetime(event_time)}
        )

    def open_unit(self, stream: str, unit: str) -> tuple[int, bool]:
        """The ledger id of a source unit, and whether it is finished."""
        row = self._connection.execute(
            _QUERIES["open_unit"], {"stream": stream, "unit": unit}
        ).fetchone()
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
        """A source unit is archived; `newest` is its newest event time, `fields` those of its CSV lines."""
        values = {"id": unit, "newest": optional_datetime(newest), **vars(counters)}
        self._connection.execute(
            _QUERIES["finish_unit"], {**values, "fields": None if fields is None else list(fields)}
        )
        self._advance_newest(stream, newest)

    def _advance_newest(self, stream: str, newest: int | None) -> None:
        if newest is not None:
            self._connection.execute(
                _QUERIES["move_newest"], {"name": stream, "newest": optional_datetime(newest)}
            )

    def dead_letters_to_retry(self, streams: Sequence[str], limit: int) -> list[DeadLetter]:
        """Dead letters of some streams that somebody wants retried, unit by unit, in the order of their lines."""
        with self._connection.cursor(row_factory=class_row(DeadLetter)) as cursor:
            return cursor.execute(
                _QUERIES["letters_to_retry"], {"streams": list(streams), "limit": limit}
            ).fetchall()

    def record_retried(
        self, unit: int, stream: str, lines: Sequence[int], change: Counters, newest: int | None
    ) -> None:
        """Dead letters of a unit have been retried: they leave, its counters change by so much."""
        self._connection.execute(_QUERIES["drop_letters"], {"unit_id": unit, "lines": list(lines)})
        self._connection.execute(_QUERIES["change_counters"], {"id": unit, **vars(change)})
        self._advance_newest(stream, newest)

    def mark_for_retry(
        self, ids: Sequence[tuple[int, int]], stream: str | None, reason: str | None, limit: int
    ) -> list[tuple[int, int]]:
        """Ask for dead letters, named by unit and line, or all of a stream and reason; returns which were asked for."""
        units, lines = [unit for unit, _ in ids], [line for _, line in ids]
        values = {
            "named": bool(ids),
            "units": units,
            "lines": lines,
            "stream": stream,
            "reason": reason,
            "most": limit,
        }
        return self._connection.execute(_QUERIES["mark_for_retry"], values).fetchall()

    def count_pending_retries(self, streams: Sequence[str] | None = None) -> int:
        """How many dead letters, of some streams or of all, wait to be retried."""
        named = None if streams is None else list(streams)
        row = self._connection.execute(_QUERIES["still_to_retry"], {"streams": named}).fetchone()
        assert row is not None
        return int(row[0])

    def count_dead_letters(self, ids: Sequence[tuple[int, int]]) -> int:
        """How many of these are dead letters that do not wait to be retried."""
        values = {"units": [unit for unit, _ in ids], "lines": [line for _, line in ids]}
        row = self._connection.execute(_QUERIES["still_dead"], values).fetchone()
        assert row is not None
        return int(row[0])

    def put_dead_letters(self, unit: int, refused_lines: Sequence[RefusedLine]) -> None:
        """Keep refused lines."""
        if refused_lines:
            with self._connection.cursor() as cursor:
                cursor.executemany(
                    _QUERIES["put_dead_letter"],
                    [
                        {
                            "unit_id": unit,
                            "line": r.line,
                            "reason": r.reason,
                            "detail": r.detail.replace("\x00", "\\0"),
                            "raw": r.raw,
                        }
                        for r in refused_lines
                    ],
                )

    def finished_units(self, stream: str, names: Collection[str] | None = None) -> set[str]:
        """The names of a stream's finished units, of all or of those `among` some."""
        values = {"stream": stream, "units": None if names is None else list(names)}
        return {row[0] for row in self._connection.execute(_QUERIES["done_units"], values)}

    def unit_counters(self, stream: str, units: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The counters of those of the named units that are finished, by unit. After a while units have no names any
        more (see `archiver.ingest.ledger_compaction`)."""
        return {
            row.pop("unit"): row
            for row in self._rows("counters_of", {"stream": stream, "units": list(units)})
        }

    def accounting(self) -> list[dict[str, Any]]:
        """Counters by stream."""
        return self._rows("accounting", {})

    def dead_letters(
        self, stream: str | None, reason: str | None, limit: int
    ) -> list[dict[str, Any]]:
        """Refused lines, newest first."""
        return self._rows("dead_letters", {"stream": stream, "reason": reason, "limit": limit})

    def _rows(self, query: str, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        with self._connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(_QUERIES[query], values).fetchall()
