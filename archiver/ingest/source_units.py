"""Source units, the smallest inputs recorded in the ledger, and reading them in batches."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from archiver.delta import StreamSchema
from archiver.errors import IncompatibleColumn, InvalidValue, SourceDamaged
from archiver.formats import (
    COMPRESSION_SUFFIXES,
    JSONL,
    PLAIN_CSV,
    CsvDialect,
    Format,
    RecordReading,
)
from archiver.ingest.decoding import (
    DecodedRows,
    RecordSource,
    RefusedLine,
    decode_blocks,
    decode_lines,
    decode_table,
    split_header,
)
from archiver.storage import ObjectPath
from sql.archive import FileVersionRow

# Records decoded and appended at once: bounds memory (about 300 bytes per record) and file sizes.
BATCH_RECORDS = 200_000

# Files up to this size are decoded together, until they have so many bytes, or are so many.
_SMALL_BYTES = 64 << 10
_TOGETHER_BYTES = 1 << 20
_TOGETHER_UNITS = 1_000

_MAX_DETAIL_LENGTH = 500  # characters of an error message


class OffsetRange(NamedTuple):
    """Offsets of a partition, `end` not included. Not each of them has a record."""

    first: int
    end: int


@dataclass(frozen=True)
class SourceUnit:
    """A file, a pushed batch, a range of a Kafka partition, or the dead letters of a unit to retry.

    `format`: of the records; of tables, `read` yields tables of rows, of documents blocks of bytes,
    else lines without line ends, including blank ones. With `line_numbers`, `read` yields records,
    and these are their numbers. `fields`: the field names of CSV records without a header.
    `partition`: set if a record is late by the records before it in the partition, instead of by
    the units before. `path`: the file that `read` reads, None for other sources. `size`: bytes of
    the source, None if unknown. `next_offset`: of a range of a partition, the offset after it.
    `tombstones`: records of the range without a value, which `read` does not yield. `place`: the
    name in the identities of rows that are identified by their place; default: that of the unit.
    `version`: of a file, see `FileVersionRow`; its name is that of the first reading. `arrived_at`:
    in seconds since 1970, None if the delay until its rows are evaluated is not measured. `stamp`:
    by what a file is found again when it was renamed, None if it is not.
    """

    stream: str
    name: str
    format: Format
    read: Callable[[], Iterator[bytes]] | Callable[[], Iterator[pa.Table]]
    line_numbers: Sequence[int] | None = None
    fields: Sequence[str] | None = None
    partition: str | None = None
    path: Path | ObjectPath | None = None
    size: int | None = None
    next_offset: int | None = None
    tombstones: int = 0
    place: str | None = None
    version: FileVersionRow | None = None
    arrived_at: float | None = None
    stamp: str | None = None

    def reading(self, clock: int | None, fields: Sequence[str] | None = None) -> RecordReading:
        """How the records are read. `clock`: when the unit was first read. `fields`: of CSV."""
        names = self.fields if fields is None else fields
        return RecordReading(
            self.format,
            None if names is None else tuple(names),
            clock,
            self.name if self.place is None else self.place,
        )


@dataclass(frozen=True)
class UnitBatch:
    """Consecutive records of a unit, decoded, and how they were read."""

    records_read: int
    rows: DecodedRows
    reading: RecordReading


def read_batches(
    unit: SourceUnit, schema: StreamSchema, clock: int | None = None
) -> Iterator[UnitBatch]:
    """Decode a unit's records in order. An unreadable rest counts as one malformed record.

    `clock`: when the unit was first read, in microseconds.
    """
    last_line = 0
    reading = unit.reading(clock)
    try:
        if unit.format.is_table:
            batches = _read_table_batches(unit, schema, clock)
        else:
            batches = _read_record_batches(_open_records(unit, schema, clock), schema)
        for batch in batches:
            last_line = max(last_line, _last_line(batch.rows))
            reading = batch.reading
            yield batch
    except (SourceDamaged, IncompatibleColumn) as error:
        yield _make_damaged_batch(error, last_line, reading, schema)


def read_units(
    units: Sequence[tuple[SourceUnit, int | None]], schema: StreamSchema
) -> Iterator[Iterable[UnitBatch]]:
    """What `read_batches` yields of each unit of a stream, with its clock.

    Small files that follow each other are opened, and decoded, together.
    """
    small: list[_OpenRecords] = []
    size = 0
    for unit, clock in units:
        if not _is_small(unit):
            yield from _decode_together(small, schema)
            small, size = [], 0
            yield read_batches(unit, schema, clock)
            continue
        small.append(_open_records(unit, schema, clock))
        size += unit.size or 0
        if size >= _TOGETHER_BYTES or len(small) >= _TOGETHER_UNITS:
            yield from _decode_together(small, schema)
            small, size = [], 0
    yield from _decode_together(small, schema)


def _is_small(unit: SourceUnit) -> bool:
    if unit.size is None or unit.path is None or unit.format.is_table:
        return False
    return unit.size <= _SMALL_BYTES and unit.path.suffix not in COMPRESSION_SUFFIXES


def _decode_together(
    units: Sequence["_OpenRecords"], schema: StreamSchema
) -> Iterator[Iterable[UnitBatch]]:
    """The batches of each of some small units, in order."""
    for _, group in groupby(units, _OpenRecords.decoded_as):
        opened = list(group)
        taken = [unit.unread.take(BATCH_RECORDS) for unit in opened]
        records = list(chain.from_iterable(unit.records for unit in taken))
        decoded = decode_blocks(schema, opened[0].reading, records, 0)
        rows = _renumber(decoded, np.concatenate([unit.line_numbers for unit in taken]))
        table = rows.table.combine_chunks()
        refused = deque(zip(decoded.refused_lines, rows.refused_lines, strict=True))
        ends = np.cumsum([len(unit.records) for unit in taken])
        row = 0
        for unit, unit_records, end, row_end in zip(
            opened,
            taken,
            ends.tolist(),
            np.searchsorted(decoded.line_numbers, ends).tolist(),
            strict=True,
        ):
            unit_refused: list[RefusedLine] = []
            while refused and refused[0][0].line < end:
                unit_refused.append(refused.popleft()[1])
            unit_rows = DecodedRows(
                table=table.slice(row, row_end - row),
                line_numbers=rows.line_numbers[row:row_end],
                raw=rows.raw[row:row_end],
                refused_lines=unit_refused,
            )
            batch = UnitBatch(len(unit_records.records), unit_rows, unit.reading)
            yield _continue_unit(unit, batch, schema)
            row = row_end


def _continue_unit(
    unit: "_OpenRecords", batch: UnitBatch, schema: StreamSchema
) -> Iterator[UnitBatch]:
    """A unit after its first records; it may have grown since it was small."""
    last_line = _last_line(batch.rows)
    reading = unit.reading if batch.records_read else replace(unit.reading, fields=None)
    try:
        if batch.records_read:
            yield batch
        if batch.records_read == BATCH_RECORDS:
            for later in _read_record_batches(unit, schema):
                last_line = max(last_line, _last_line(later.rows))
                yield later
        elif unit.unread.damage is not None:
            raise unit.unread.damage
    except SourceDamaged as error:
        yield _make_damaged_batch(error, last_line, reading, schema)


def _make_damaged_batch(
    error: Exception, last_line: int, reading: RecordReading, schema: StreamSchema
) -> UnitBatch:
    """An unreadable rest after a line."""
    detail = str(error)[:_MAX_DETAIL_LENGTH]
    refused = RefusedLine(last_line + 1, "malformed", detail, b"")
    no_rows = decode_lines(schema, RecordReading(JSONL), [], 0)
    return UnitBatch(1, replace(no_rows, refused_lines=[refused]), reading)


def _last_line(rows: DecodedRows) -> int:
    """The highest line number of the rows and refused lines; 0 without any."""
    last_lines = rows.line_numbers[-1:].tolist()
    last_lines += [refused.line for refused in rows.refused_lines[-1:]]
    return max(last_lines, default=0)


def _read_table_batches(
    unit: SourceUnit, schema: StreamSchema, clock: int | None
) -> Iterator[UnitBatch]:
    first = 1
    for table in unit.read():
        assert isinstance(table, pa.Table)
        yield UnitBatch(len(table), decode_table(schema, table, first), unit.reading(clock))
        first += len(table)


class _OpenRecords(NamedTuple):
    """A unit of records, the header of CSV aside."""

    unread: RecordSource
    reading: RecordReading

    def decoded_as(self) -> tuple[Any, ...]:
        """The records of units with one value are decoded alike."""
        return self.reading.format, self.reading.fields, self.reading.clock


def _open_records(unit: SourceUnit, schema: StreamSchema, clock: int | None) -> _OpenRecords:
    content: Iterator[Any] = unit.read()
    unread = RecordSource(unit.format, content, unit.line_numbers)
    fields = unit.fields
    if unit.format.is_csv and fields is None:
        fields = _read_csv_fields(unit, unread, schema)
    return _OpenRecords(unread, unit.reading(clock, fields))


def _read_record_batches(opened: _OpenRecords, schema: StreamSchema) -> Iterator[UnitBatch]:
    unread, reading = opened
    while True:
        records = unread.take(BATCH_RECORDS)
        if records.records:
            rows = decode_blocks(schema, reading, records.records, 0)
            renumbered = _renumber(rows, records.line_numbers)
            yield UnitBatch(len(records.records), renumbered, reading)
        if len(records.records) < BATCH_RECORDS:
            break
    if unread.damage is not None:
        raise unread.damage


def _read_csv_fields(unit: SourceUnit, unread: RecordSource, schema: StreamSchema) -> Sequence[str]:
    """The field names of CSV: those declared, of the header, or of the columns."""
    dialect = unit.format.csv
    header = unread.take(1).records if dialect.header else []
    if dialect.names:
        return dialect.names
    if not dialect.header:
        return schema.field_names
    return csv_fields(header[0], dialect) if header else []


def _renumber(rows: DecodedRows, line_numbers: npt.NDArray[np.int64]) -> DecodedRows:
    """Replace positions within a batch by the line numbers in the unit."""
    refused = []
    for line in rows.refused_lines:
        refused.append(replace(line, line=int(line_numbers[line.line])))
    return replace(rows, line_numbers=line_numbers[rows.line_numbers], refused_lines=refused)


def csv_fields(header: bytes, dialect: CsvDialect = PLAIN_CSV) -> list[str]:
    """The field names of a CSV header, some of which may be equal; none if it is no record.

    Each line is then refused for its header.
    """
    try:
        return split_header(header, dialect)
    except InvalidValue:
        return []
