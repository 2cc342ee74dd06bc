"""First job of a batch: decode pieces, refuse lines, and keep the rows for the next jobs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from archiver.delta import StreamSchema, fingerprint
from archiver.executors.blobs import Blob, pack, with_places
from archiver.executors.pieces import UnitPiece
from archiver.executors.reading import read_piece
from archiver.ingest import BATCH_RECORDS, SourceUnit
from archiver.ingest.line_decoder import RefusedLine
from archiver.ingest.open_unit import refuse_by_time
from archiver.times import micros_column


@dataclass(frozen=True)
class DecodeContext:
    """What all tasks of the job need.

    `now`: microseconds, one time for the batch. `expired_before`: rows before this event time
    belong to expired chunks; None: none.
    """

    schemas: Mapping[str, StreamSchema]
    now: int
    expired_before: int | None


@dataclass(frozen=True)
class DecodeTask:
    """Consecutive pieces and their units, by position in the batch."""

    pieces: Sequence[UnitPiece]
    units: Mapping[int, SourceUnit]


@dataclass(frozen=True)
class DecodedSegment:
    """The records of a piece that belong to one slice of its unit.

    `records`: read; `rows`: decoded and not refused, with event times from `oldest` to `newest`.
    `fields`: the field names of CSV lines.
    """

    unit: int
    slice: int
    records: int
    rows: int
    oldest: int | None
    newest: int | None
    refused_lines: Sequence[RefusedLine]
    fields: Sequence[str] | None


@dataclass(frozen=True)
class DecodeSummary:
    """What the driver learns of a task: the segments in the order of arrival."""

    segments: Sequence[DecodedSegment]


DecodedPart = Blob | DecodeTask | DecodeSummary


def decode_pieces(context: DecodeContext, task: DecodeTask) -> Iterator[DecodedPart]:
    """Decode the pieces of a task. Yields the task, blobs of rows, and the summary."""
    yield task
    segments: list[DecodedSegment] = []
    pending = _PendingRows()
    for piece in task.pieces:
        unit = task.units[piece.unit]
        schema = context.schemas[unit.stream]
        for number, batch in enumerate(read_piece(unit, piece, schema), piece.slice):
            rows, time_refused = refuse_by_time(
                batch.rows, schema, context.now, context.expired_before
            )
            ts = micros_column(rows.table, schema.time)
            segment = DecodedSegment(
                unit=piece.unit,
                slice=number,
                records=batch.records_read,
                rows=len(ts),
                oldest=int(ts.min()) if len(ts) else None,
                newest=int(ts.max()) if len(ts) else None,
                refused_lines=[*batch.rows.refused_lines, *time_refused],
                fields=batch.fields,
            )
            segments.append(segment)
            if not len(ts):
                continue
            if not pending.accepts(unit.stream, len(ts)):
                yield pending.pack()
            ids, hashes = fingerprint(schema, rows.table)
            table = with_places(rows.table, ids, hashes, piece.unit, rows.line_numbers)
            pending.add(unit.stream, len(segments) - 1, table)
    if pending.row_count:
        yield pending.pack()
    yield DecodeSummary(segments)


class _PendingRows:
    """Rows of one stream that become one blob."""

    def __init__(self) -> None:
        self.row_count = 0
        self._stream = ""
        self._segments: list[tuple[int, int]] = []
        self._tables: list[pa.Table] = []

    def accepts(self, stream: str, rows: int) -> bool:
        """Whether the blob may have so many more rows of a stream."""
        if not self.row_count:
            return True
        return stream == self._stream and self.row_count + rows <= BATCH_RECORDS

    def add(self, stream: str, segment: int, rows: pa.Table) -> None:
        """Add the rows of a segment."""
        self._stream = stream
        self._segments.append((segment, len(rows)))
        self._tables.append(rows)
        self.row_count += len(rows)

    def pack(self) -> Blob:
        """The blob; the next rows begin another one."""
        blob = pack(self._stream, self._segments, self._tables)
        self._segments = []
        self._tables = []
        self.row_count = 0
        return blob
