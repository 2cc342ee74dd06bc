"""First step of a batch: decode pieces, refuse lines, and keep the rows for the next steps."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from archiver.delta import StreamSchema, fingerprint, row_places
from archiver.executors.pieces import UnitPiece
from archiver.executors.tasks.blobs import Blob, pack, with_places, with_raw
from archiver.executors.tasks.reading import read_pieces, with_lines
from archiver.formats import Format
from archiver.ingest import (
    BATCH_RECORDS,
    KeyAhead,
    LateRule,
    OffsetRange,
    Punctuations,
    SourceUnit,
    take_punctuations,
)
from archiver.ingest.classify import Array
from archiver.ingest.decoding import RefusedLine, redact_names, redact_records, redact_refused
from archiver.ingest.earlier_readings import read_rows_as_earlier
from archiver.ingest.open_unit import observe_times, refuse_by_time
from archiver.ingest.source_units import UnitBatch, read_batches
from archiver.ingest.topic_records import partition_place, select_records
from archiver.times import Micros

# Of Kafka records.
_RECORD_SCHEMA = pa.schema(
    [("partition", pa.int32()), ("offset", pa.int64()), ("value", pa.binary())]
)


@dataclass(frozen=True)
class DecodeContext:
    """What all tasks of the job need.

    `now`: microseconds, one time for the batch. `expired_before`: by stream,
    rows before this event time have expired; None: none have. `clocks`: at which units were first
    read, by position; `clock`: of all other units.
    """

    schemas: Mapping[str, StreamSchema]
    now: int
    expired_before: Mapping[str, int | None]
    clocks: Mapping[int, Micros | None]
    clock: Micros | None = None

    def late_rule(self, unit: int) -> LateRule:
        """Which rows of a unit are ahead of the clock; which are late is not known yet."""
        return LateRule(clock=self.clock_of(unit))

    def clock_of(self, unit: int) -> Micros | None:
        """At which a unit was first read."""
        return self.clocks.get(unit, self.clock)


@dataclass(frozen=True)
class DecodeTask:
    """Consecutive pieces and their units, by position in the batch."""

    pieces: Sequence[UnitPiece]
    units: Mapping[int, SourceUnit]


@dataclass(frozen=True)
class DecodedSegment:
    """The records of a piece that belong to one slice of its unit.

    `records`: read; `rows`: decoded and not refused, with event times from `oldest` to `newest`;
    `newest_not_ahead`, `keys_ahead`: as in `ObservedTimes`. `fields`: the field names of CSV lines.
    `punctuations`: the records that close time, without the refused lines.
    """

    unit: int
    slice: int
    records: int
    rows: int
    oldest: int | None
    newest: int | None
    newest_not_ahead: int | None
    keys_ahead: Sequence[KeyAhead]
    refused_lines: Sequence[RefusedLine]
    fields: Sequence[str] | None
    punctuations: Punctuations


@dataclass(frozen=True)
class DecodeSummary:
    """What the driver learns of a task: the segments in the order of arrival.

    `tombstones`: number of Kafka records without a value, by partition; each partition that the
    task has read is in it.
    """

    segments: Sequence[DecodedSegment]
    tombstones: Mapping[int, int] = field(default_factory=dict)


DecodedPart = Blob | DecodeTask | DecodeSummary


def read_summary(_task: int, parts: Iterable[DecodedPart]) -> DecodeSummary:
    """The summary among the parts of a task."""
    summaries = [part for part in parts if isinstance(part, DecodeSummary)]
    # Spark does not call the function of a part of a data frame without rows.
    return summaries[0] if summaries else DecodeSummary([])


def decode_pieces(context: DecodeContext, task: DecodeTask) -> Iterator[DecodedPart]:
    """Decode the pieces of a task. Yields the task, blobs of rows, and the summary."""
    yield task
    rows = _RowCollector(context)
    pieces = read_pieces(task.pieces, task.units, context.schemas, context.clock_of)
    for piece, batches in pieces:
        stream = task.units[piece.unit].stream
        for number, batch in enumerate(batches, piece.slice):
            yield from rows.add(stream, piece.unit, number, batch)
    yield from rows.finish()
    yield DecodeSummary(rows.segments)


@dataclass(frozen=True)
class RecordFormat:
    """Kafka records of a stream. `fields`: the field names of CSV records. `source`: the topic.

    `ranges`: by partition, the offsets that are archived.
    """

    stream: str
    format: Format
    source: str
    fields: Sequence[str] | None
    ranges: Mapping[int, OffsetRange]

    def empty_unit(self, partition: int) -> SourceUnit:
        """A unit of a partition without records."""
        return SourceUnit(
            self.stream,
            "records",
            self.format,
            lambda: iter(()),
            fields=self.fields,
            place=partition_place(self.source, str(partition)),
        )


def decode_records(
    context: DecodeContext, record_format: RecordFormat, tables: Iterable[pa.RecordBatch]
) -> Iterator[DecodedPart]:
    """Decode the Kafka records of a task, with the columns that `select_records` takes.

    The unit of a record is its partition. Yields blobs of rows and the summary.
    """
    rows = _RowCollector(context, keeps_raw=True)
    tombstones: dict[int, int] = {}
    batches = list(tables)
    records = pa.Table.from_batches(batches) if batches else _RECORD_SCHEMA.empty_table()
    schema = context.schemas[record_format.stream]
    for partition in sorted(pc.unique(records["partition"]).to_pylist()):
        part = select_records(
            records, partition, record_format.ranges[partition], schema.punctuation
        )
        tombstones[partition] = part.tombstones
        unit = with_lines(record_format.empty_unit(partition), part.offsets, part.values)
        clock = context.clock_of(partition)
        # Another task may have records of a partition in between.
        yield from rows.finish()
        for number, batch in enumerate(read_batches(unit, schema, clock)):
            yield from rows.add(record_format.stream, partition, number, batch)
    yield from rows.finish()
    yield DecodeSummary(rows.segments, tombstones)


class _RowCollector:
    """Refuses rows by their time, and collects the others as segments and blobs.

    `keeps_raw`: keep the bytes of the records, which cannot be read again.
    """

    def __init__(self, context: DecodeContext, keeps_raw: bool = False) -> None:
        self.segments: list[DecodedSegment] = []
        self._context = context
        self._keeps_raw = keeps_raw
        self._pending = _PendingRows()

    def add(self, stream: str, unit: int, slice_number: int, batch: UnitBatch) -> Iterator[Blob]:
        """Add the records of a slice. Yields the blob that is complete, if any."""
        schema = self._context.schemas[stream]
        rows, ts, time_refused = refuse_by_time(
            batch.rows, schema, self._context.now, self._context.expired_before[stream]
        )
        punctuations = take_punctuations(
            batch.rows.refused_lines, schema, batch.reading, self._context.now
        )
        refused = punctuations.refused_lines
        observed = observe_times(rows.table, ts, schema, self._context.late_rule(unit))
        segment = DecodedSegment(
            unit=unit,
            slice=slice_number,
            records=batch.records_read,
            rows=len(ts),
            oldest=int(ts.min()) if len(ts) else None,
            newest=observed.newest,
            newest_not_ahead=observed.newest_not_ahead,
            keys_ahead=observed.keys_ahead,
            refused_lines=redact_refused(schema, batch.reading, [*refused, *time_refused]),
            fields=redact_names(schema, batch.reading.fields),
            punctuations=punctuations._replace(refused_lines=()),
        )
        self.segments.append(segment)
        if not len(ts):
            return
        if not self._pending.accepts(stream, len(ts)):
            yield self._pending.pack()
        place_keys = row_places(schema, batch.reading.unit, rows.line_numbers)
        ids, hashes = fingerprint(schema, rows.table, place_keys)
        table = with_places(rows.table, ids, hashes, unit, rows.line_numbers)
        if self._keeps_raw:
            # Spark may keep parts on disk.
            table = with_raw(table, redact_records(schema, batch.reading, rows.raw))
        readings = read_rows_as_earlier(schema, rows, batch.reading)
        self._pending.add(stream, len(self.segments) - 1, table, readings)

    def finish(self) -> Iterator[Blob]:
        """Yields the last blob, if any."""
        if self._pending.row_count:
            yield self._pending.pack()


class _PendingRows:
    """Rows of one stream that become one blob."""

    def __init__(self) -> None:
        self.row_count = 0
        self._stream = ""
        self._segments: list[tuple[int, int]] = []
        self._tables: list[pa.Table] = []
        self._readings: list[Array] = []

    def accepts(self, stream: str, rows: int) -> bool:
        """Whether the blob may have so many more rows of a stream."""
        if not self.row_count:
            return True
        return stream == self._stream and self.row_count + rows <= BATCH_RECORDS

    def add(self, stream: str, segment: int, rows: pa.Table, readings: Array) -> None:
        """Add the rows of a segment, and their readings by earlier declarations."""
        readings["row"] += self.row_count
        self._readings.append(readings)
        self._stream = stream
        self._segments.append((segment, len(rows)))
        self._tables.append(rows)
        self.row_count += len(rows)

    def pack(self) -> Blob:
        """The blob; the next rows begin another one."""
        blob = pack(self._stream, self._segments, self._tables, self._readings)
        self._segments = []
        self._tables = []
        self._readings = []
        self.row_count = 0
        return blob
