"""Reading pieces of source units in a task."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import compress, groupby
from typing import Any, BinaryIO

import pyarrow as pa

from archiver.delta import StreamSchema
from archiver.errors import SourceDamaged, SourceUnreachable
from archiver.executors.pieces import ByteRange, LineCount, LineRange, UnitPiece
from archiver.ingest import SourceUnit, find_encoding_mark
from archiver.ingest.decoding import (
    BYTE_ORDER_MARK,
    RecordSource,
    RowsAsJson,
    are_plain_lines,
    named_delimiter,
)
from archiver.ingest.source_units import (
    BATCH_RECORDS,
    UnitBatch,
    csv_fields,
    read_batches,
    read_units,
)

_READ_SIZE = 1 << 20  # bytes of lines read and counted at once
_BLANK_LINE = re.compile(rb"\n[ \t\r\v\f]*(?=\n)")


@dataclass(frozen=True)
class CountedRange:
    """`counts`: of consecutive parts. `header`: the first record of the file, if the range has it.

    `is_linewise`: each line is a record, in UTF-8.
    """

    counts: Sequence[LineCount]
    header: bytes | None
    is_linewise: bool = True


def count_lines(unit: SourceUnit, byte_range: ByteRange) -> CountedRange | None:
    """Count the lines that begin in a byte range; None if the file cannot be read."""
    try:
        return _count_lines(unit, byte_range)
    except (SourceUnreachable, OSError):
        return None


def _count_lines(unit: SourceUnit, byte_range: ByteRange) -> CountedRange:
    counts: list[LineCount] = []
    header: bytes | None = None
    with _open(unit) as file:
        position = _seek_line(file, byte_range.start)
        while byte_range.end is None or position < byte_range.end:
            size = _READ_SIZE
            if byte_range.end is not None:
                size = min(size, byte_range.end - position)
            block = _read_lines(file, size)
            if not block:
                break
            offset = position
            position += len(block)
            if offset == 0:
                if find_encoding_mark(block) is not None:
                    return CountedRange([], None, is_linewise=False)
                block = block.removeprefix(BYTE_ORDER_MARK)
                if unit.format.is_csv and named_delimiter(block.partition(b"\n")[0]) is not None:
                    return CountedRange([], None, is_linewise=False)
            if unit.format.is_csv and b'"' in block and not are_plain_lines(block.split(b"\n")):
                return CountedRange([], None, is_linewise=False)
            if not block.endswith(b"\n"):
                block += b"\n"
            lines = block.count(b"\n")
            records = lines - len(_BLANK_LINE.findall(b"\n" + block))
            counts.append(LineCount(offset, lines, records))
            if header is None and byte_range.start == 0:
                header = next(filter(bytes.strip, block.split(b"\n")), None)
    return CountedRange(counts, header)


def _read_lines(file: BinaryIO, size: int) -> bytes:
    """The next bytes, at least `size` unless the file ends, to the end of a line."""
    block = file.read(size)
    if block and not block.endswith(b"\n"):
        block += file.readline()
    return block


def _open(unit: SourceUnit) -> BinaryIO:
    assert unit.path is not None
    try:
        return unit.path.open("rb")
    except OSError as error:
        raise SourceUnreachable(
            f"{unit.path}: cannot read the file: {error.strerror or error}"
        ) from error


def _seek_line(file: BinaryIO, start: int) -> int:
    """Go to the first line that begins at byte `start` or later; return its offset."""
    if start == 0:
        return 0
    file.seek(start - 1)
    file.readline()
    return file.tell()


def read_pieces(
    pieces: Iterable[UnitPiece],
    units: Mapping[int, SourceUnit],
    schemas: Mapping[str, StreamSchema],
    clock_of: Callable[[int], int | None],
) -> Iterator[tuple[UnitPiece, Iterable[UnitBatch]]]:
    """Decode the records of pieces, slice by slice. `unit.fields` is set for parts of CSV files.

    Small files of a stream that follow each other are opened, and decoded, together. `clock_of`:
    see `read_batches`, by position of the unit. Raises `SourceUnreachable`.
    """

    def kind(piece: UnitPiece) -> tuple[str, bool]:
        return units[piece.unit].stream, piece.lines is None

    for (stream, is_whole), group in groupby(pieces, kind):
        schema = schemas[stream]
        if is_whole:
            group_pieces = list(group)
            clocked_units = [(units[piece.unit], clock_of(piece.unit)) for piece in group_pieces]
            yield from zip(group_pieces, read_units(clocked_units, schema), strict=True)
            continue
        for piece in group:
            assert piece.lines is not None
            unit = units[piece.unit]
            part = with_lines(unit, *_read_line_range(unit, piece.lines))
            yield piece, read_batches(part, schema, clock_of(piece.unit))


def with_lines(unit: SourceUnit, numbers: Sequence[int], lines: Sequence[bytes]) -> SourceUnit:
    """A unit that has only some records, with their line numbers. `unit.fields` is set for CSV."""
    return replace(unit, read=lambda: iter(lines), line_numbers=numbers)


def _read_line_range(unit: SourceUnit, lines: LineRange) -> tuple[list[int], list[bytes]]:
    """The line numbers of the records of a part of a file, and the records."""
    numbers: list[int] = []
    records: list[bytes] = []
    stop = None if lines.take is None else lines.skip + lines.take
    first_line = lines.first_line
    with _open(unit) as file:
        file.seek(lines.offset)
        while stop is None or len(records) < stop:
            block = _read_lines(file, _READ_SIZE)
            if not block:
                break
            if first_line == 1:
                block = block.removeprefix(BYTE_ORDER_MARK)
            block_lines = block.removesuffix(b"\n").split(b"\n")
            if b"\r" in block:
                block_lines = [line.rstrip(b"\r") for line in block_lines]
            block_numbers = range(first_line, first_line + len(block_lines))
            if all(map(bytes.strip, block_lines)):
                numbers += block_numbers
                records += block_lines
            else:
                is_record = list(map(bool, map(bytes.strip, block_lines)))
                numbers += compress(block_numbers, is_record)
                records += compress(block_lines, is_record)
            first_line = block_numbers.stop
    return numbers[lines.skip : stop], records[lines.skip : stop]


def read_raw_lines(
    units: Mapping[int, SourceUnit],
    pieces: Sequence[UnitPiece],
    numbers_by_unit: Mapping[int, Collection[int]],
) -> dict[tuple[int, int], bytes]:
    """The bytes of some lines of pieces, by unit and line number."""
    raw: dict[tuple[int, int], bytes] = {}
    for piece in pieces:
        numbers = numbers_by_unit.get(piece.unit, ())
        if not numbers:
            continue
        with suppress(SourceDamaged):  # as when the lines before the damage were decoded
            for number, line in _read_raw(units[piece.unit], piece, numbers):
                raw[piece.unit, number] = line
    return raw


def _read_raw(
    unit: SourceUnit, piece: UnitPiece, numbers: Collection[int]
) -> Iterator[tuple[int, bytes]]:
    if unit.format.is_table:
        first = 1
        for table in unit.read():
            assert isinstance(table, pa.Table)
            rows = RowsAsJson(table)
            for number in numbers:
                if first <= number < first + len(rows):
                    yield number, rows[number - first]
            first += len(rows)
        return
    if piece.lines is None:
        yield from _read_numbered(unit, numbers)
        return
    for number, line in zip(*_read_line_range(unit, piece.lines), strict=True):
        if number in numbers:
            yield number, line


def _read_numbered(unit: SourceUnit, numbers: Collection[int]) -> Iterator[tuple[int, bytes]]:
    """The records of a whole unit with some numbers."""
    content: Iterator[Any] = unit.read()
    source = RecordSource(unit.format, content, unit.line_numbers)
    while True:
        records = source.take(BATCH_RECORDS)
        for number, record in zip(records.line_numbers.tolist(), records.records, strict=True):
            if number in numbers:
                yield number, record
        if len(records.records) < BATCH_RECORDS:
            return


def parse_header(unit: SourceUnit, header: bytes | None) -> Sequence[str] | None:
    """The field names for parts of a file; None if its lines are not CSV."""
    if not unit.format.is_csv:
        return None
    if unit.fields is not None:
        return unit.fields
    if unit.format.csv.names:
        return unit.format.csv.names
    return [] if header is None else csv_fields(header)
