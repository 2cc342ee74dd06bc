"""Source units, the smallest inputs recorded in the ledger, and reading them in batches."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from archiver.delta import StreamSchema
from archiver.errors import IncompatibleColumn, SourceDamaged
from archiver.formats import JSONL, PLAIN_CSV, CsvDialect, Format, RecordReading
from archiver.ingest.decoding import (
    DecodedRows,
    RecordSource,
    RefusedLine,
    decode_blocks,
    decode_lines,
    decode_table,
    parse_csv_header,
)
from archiver.storage import ObjectPath
from sql.archive import FileVersionRow

# Records decoded and appended at once: bounds memory (about 300 bytes per record) and file sizes.
BATCH_RECORDS = 200_000

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
    in seconds since 1970, None if the delay until its rows are evaluated is not measured.
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
    try:
        for batch in _decode_batches(unit, schema, clock):
            last_line = max(last_line, _last_line(batch.rows))
            yield batch
    except (SourceDamaged, IncompatibleColumn) as error:
        detail = str(error)[:_MAX_DETAIL_LENGTH]
        refused = RefusedLine(last_line + 1, "malformed", detail, b"")
        no_rows = decode_lines(schema, RecordReading(JSONL), [], 0)
        reading = unit.reading(clock)
        yield UnitBatch(1, replace(no_rows, refused_lines=[refused]), reading)


def _decode_batches(
    unit: SourceUnit, schema: StreamSchema, clock: int | None
) -> Iterator[UnitBatch]:
    if unit.format.is_table:
        return _read_table_batches(unit, schema, clock)
    return _read_record_batches(unit, schema, clock)


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


def _read_record_batches(
    unit: SourceUnit, schema: StreamSchema, clock: int | None
) -> Iterator[UnitBatch]:
    content: Iterator[Any] = unit.read()
    unread = RecordSource(unit.format, content, unit.line_numbers)
    fields = unit.fields
    if unit.format.is_csv and fields is None:
        fields = _read_csv_fields(unit, unread, schema)
    reading = unit.reading(clock, fields)
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
    """The field names of a CSV header; an empty list if it is invalid."""
    try:
        return parse_csv_header(header, dialect)
    except ValueError:
        return []  # each line is then refused for its header
