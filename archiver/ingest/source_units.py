"""Source units, the smallest inputs recorded in the ledger, and reading them in batches."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from archiver.delta import StreamSchema
from archiver.errors import IncompatibleColumn, SourceDamaged
from archiver.ingest.decoding import (
    DecodedRows,
    LineFormat,
    RefusedLine,
    decode_blocks,
    decode_lines,
    decode_table,
    parse_csv_header,
)
from archiver.storage import ObjectPath

# Records decoded and appended at once: bounds memory (about 300 bytes per record) and file sizes.
BATCH_RECORDS = 200_000

_MAX_DETAIL_LENGTH = 500  # characters of an error message
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class OffsetRange(NamedTuple):
    """Offsets of a partition, `end` not included. Not each of them has a record."""

    first: int
    end: int


@dataclass(frozen=True)
class SourceUnit:
    """A file, a pushed batch, a range of a Kafka partition, or the dead letters of a unit to retry.

    `line_format`: None if `read` yields tables of rows; else it yields lines without line ends,
    including blank ones. `line_numbers`: the number of each line, blank ones included; None: lines
    are counted from 1, and blank ones are skipped. `fields`: the field names of CSV lines without a
    header. `partition`: set if a record is late by the records before it in the partition, instead
    of by the units before. `path`: the file that `read` reads, None for other sources. `size`: bytes
    of the source, None if unknown. `next_offset`: of a range of a partition, the offset after it.
    `tombstones`: records of the range without a value, which `read` does not yield.
    """

    stream: str
    name: str
    line_format: LineFormat | None
    read: Callable[[], Iterator[bytes]] | Callable[[], Iterator[pa.Table]]
    line_numbers: Sequence[int] | None = None
    fields: Sequence[str] | None = None
    partition: str | None = None
    path: Path | ObjectPath | None = None
    size: int | None = None
    next_offset: int | None = None
    tombstones: int = 0


@dataclass(frozen=True)
class UnitBatch:
    """Consecutive records of a unit, decoded.

    `line_format`: None for rows of tables. `fields`: the field names, if they are CSV lines.
    """

    records_read: int
    rows: DecodedRows
    line_format: LineFormat | None = None
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
    last_lines = rows.line_numbers[-1:].tolist()
    last_lines += [refused.line for refused in rows.refused_lines[-1:]]
    return max(last_lines, default=0)


def _read_table_batches(unit: SourceUnit, schema: StreamSchema) -> Iterator[UnitBatch]:
    first = 1
    for table in unit.read():
        assert isinstance(table, pa.Table)
        yield UnitBatch(len(table), decode_table(schema, table, first))
        first += len(table)


def _read_line_batches(
    unit: SourceUnit, line_format: LineFormat, schema: StreamSchema
) -> Iterator[UnitBatch]:
    unread = _UnreadRecords(unit)
    fields = unit.fields
    if line_format == "csv" and fields is None:
        header = unread.take(1).lines
        fields = csv_fields(header[0]) if header else []
    while True:
        records = unread.take(BATCH_RECORDS)
        if records.lines:
            rows = decode_blocks(schema, line_format, records.lines, 0, fields or [])
            yield UnitBatch(
                records_read=len(records.lines),
                rows=_renumber(rows, records.line_numbers),
                line_format=line_format,
                fields=fields if line_format == "csv" else None,
            )
        if len(records.lines) < BATCH_RECORDS:
            break
    if unread.damage is not None:
        raise unread.damage


class _Records(NamedTuple):
    """Lines that are records, and their numbers."""

    line_numbers: npt.NDArray[np.int64]
    lines: list[bytes]


class _UnreadRecords:
    """The records of a unit of lines that are not yet read.

    Lines counted here are without byte order mark, and blank ones are not records. `damage`: the
    error that ended them early.
    """

    def __init__(self, unit: SourceUnit) -> None:
        self._lines: Iterator[Any] = unit.read()
        self._given_numbers = unit.line_numbers
        self._lines_read = 0
        self.damage: SourceDamaged | None = None

    def take(self, limit: int) -> _Records:
        """The next records; there are no more if these are fewer than `limit`."""
        taken = _Records(np.empty(0, np.int64), [])
        while len(taken.lines) < limit:
            lines = self._read_lines(limit - len(taken.lines))
            if not lines:
                break
            records = self._number(lines)
            self._lines_read += len(lines)
            line_numbers = np.concatenate([taken.line_numbers, records.line_numbers])
            taken = _Records(line_numbers, taken.lines + records.lines)
        return taken

    def _read_lines(self, limit: int) -> list[bytes]:
        lines: list[bytes] = []
        if self.damage is not None:
            return lines
        try:
            lines.extend(islice(self._lines, limit))  # keeps the lines before the damage
        except SourceDamaged as error:
            self.damage = error
        return lines

    def _number(self, lines: list[bytes]) -> _Records:
        """Number the lines that follow those read before, and leave out those without records."""
        start = self._lines_read
        if self._given_numbers is not None:
            given_numbers = self._given_numbers[start : start + len(lines)]
            return _Records(np.array(given_numbers, np.int64), lines)
        if start == 0:
            lines = [lines[0].removeprefix(BYTE_ORDER_MARK), *lines[1:]]
        line_numbers = np.arange(start + 1, start + 1 + len(lines))
        if all(map(bytes.strip, lines)):
            return _Records(line_numbers, lines)
        is_record = list(map(bool, map(bytes.strip, lines)))
        return _Records(line_numbers[is_record], list(compress(lines, is_record)))


def _renumber(rows: DecodedRows, line_numbers: npt.NDArray[np.int64]) -> DecodedRows:
    """Replace positions within a batch by the line numbers in the unit."""
    refused = []
    for line in rows.refused_lines:
        refused.append(replace(line, line=int(line_numbers[line.line])))
    return replace(rows, line_numbers=line_numbers[rows.line_numbers], refused_lines=refused)


def csv_fields(header: bytes) -> list[str]:
    """The field names of a CSV header; an empty list if it is invalid."""
    try:
        return parse_csv_header(header)
    except ValueError:
        return []  # each line is then refused for its header
