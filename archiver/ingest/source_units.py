"""Source units, the smallest inputs recorded in the ledger, and reading them in batches."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path

import pyarrow as pa

from archiver.delta import StreamSchema
from archiver.errors import IncompatibleColumn, SourceDamaged
from archiver.ingest.decoding import (
    DecodedRows,
    LineFormat,
    RefusedLine,
    decode_lines,
    decode_table,
    parse_csv_header,
)

# Records decoded and appended at once: bounds memory (about 300 bytes per record) and file sizes.
BATCH_RECORDS = 200_000

_MAX_DETAIL_LENGTH = 500  # characters of an error message
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class SourceUnit:
    """A file, a pushed batch, a range of a Kafka partition, or the dead letters of a unit to retry.

    `line_format`: None if `read` yields tables of rows; else it yields lines without line ends,
    including blank ones. `line_numbers`: the number of each line, blank ones included; None: lines
    are counted from 1, and blank ones are skipped. `fields`: the field names of CSV lines without a
    header. `partition`: set if a record is late by the records before it in the partition, instead
    of by the units before. `path`: the file that `read` reads, None for other sources. `size`: bytes
    of the source, None if unknown.
    """

    stream: str
    name: str
    line_format: LineFormat | None
    read: Callable[[], Iterator[bytes]] | Callable[[], Iterator[pa.Table]]
    line_numbers: Sequence[int] | None = None
    fields: Sequence[str] | None = None
    partition: str | None = None
    path: Path | None = None
    size: int | None = None


@dataclass(frozen=True)
class UnitBatch:
    """Consecutive records of a unit, decoded. `fields`: the field names, if they are CSV lines."""

    records_read: int
    rows: DecodedRows
    fields: Sequence[str] | None = None


def read_batches(unit: SourceUnit, schema: StreamSchema) -> Iterator[UnitBatch]:
    """Decode a unit's records in order. An unreadable rest counts as one malformed record."""
    last_line = 0
    try:
        for batch in _decode_batches(unit, schema):
            last_line = max(last_line, _last_line(batch.rows))
            yield batch
    except (SourceDamaged, IncompatibleColumn) as error:
        detail = str(error)[:_MAX_DETAIL_LENGTH]
        refused = RefusedLine(last_line + 1, "malformed", detail, b"")
        no_rows = decode_lines(schema, "jsonl", [], 0)
        yield UnitBatch(1, replace(no_rows, refused_lines=[refused]))


def _decode_batches(unit: SourceUnit, schema: StreamSchema) -> Iterator[UnitBatch]:
    if unit.line_format is None:
        return _read_table_batches(unit, schema)
    return _read_line_batches(unit, unit.line_format, schema)


def _last_line(rows: DecodedRows) -> int:
    """The highest line number of the rows and refused lines; 0 without any."""
    refused = (line.line for line in rows.refused_lines[-1:])
    return max([0, *rows.line_numbers[-1:], *refused])


def _read_table_batches(unit: SourceUnit, schema: StreamSchema) -> Iterator[UnitBatch]:
    first = 1
    for table in unit.read():
        assert isinstance(table, pa.Table)
        yield UnitBatch(len(table), decode_table(schema, table, first))
        first += len(table)


def _read_line_batches(
    unit: SourceUnit, line_format: LineFormat, schema: StreamSchema
) -> Iterator[UnitBatch]:
    numbered_lines = _numbered_lines(unit)
    fields = unit.fields
    if line_format == "csv" and fields is None:
        header = next(numbered_lines, None)
        fields = [] if header is None else csv_fields(header[1])
    while True:
        numbers, lines, damage = _take_lines(numbered_lines)
        if lines:
            rows = decode_lines(schema, line_format, lines, 0, fields or [])
            yield UnitBatch(
                records_read=len(lines),
                rows=_renumber(rows, numbers),
                fields=fields if line_format == "csv" else None,
            )
        if damage is not None:
            raise damage
        if len(lines) < BATCH_RECORDS:
            return


def _take_lines(
    numbered_lines: Iterator[tuple[int, bytes]],
) -> tuple[list[int], list[bytes], SourceDamaged | None]:
    """The numbers and bytes of the next lines of a batch, and the error that ended it early."""
    numbers: list[int] = []
    lines: list[bytes] = []
    try:
        for number, line in islice(numbered_lines, BATCH_RECORDS):
            numbers.append(number)
            lines.append(line)
    except SourceDamaged as error:
        return numbers, lines, error
    return numbers, lines, None


def _renumber(rows: DecodedRows, numbers: Sequence[int]) -> DecodedRows:
    """Replace positions within a batch by the line numbers in the unit."""
    return replace(
        rows,
        line_numbers=list(map(numbers.__getitem__, rows.line_numbers)),
        refused_lines=[replace(line, line=numbers[line.line]) for line in rows.refused_lines],
    )


def _numbered_lines(unit: SourceUnit) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers. Lines counted here are without byte order mark and blank lines."""
    lines = unit.read()
    if unit.line_numbers is not None:
        yield from zip(unit.line_numbers, lines, strict=True)
        return
    first = next(lines, None)
    if first is None:
        return
    all_lines = chain([first.removeprefix(BYTE_ORDER_MARK)], lines)
    for number, line in enumerate(all_lines, 1):
        if line.strip():
            yield number, line


def csv_fields(header: bytes) -> list[str]:
    """The field names of a CSV header; an empty list if it is invalid."""
    try:
        return parse_csv_header(header)
    except ValueError:
        return []  # each line is then refused for its number of fields
