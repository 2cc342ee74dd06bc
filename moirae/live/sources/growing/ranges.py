"""Ranges of growing files as source units: when they are read, and when they are read again."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from archiver.file_names import unescape_name
from archiver.formats import Format
from archiver.ingest import (
    MAX_LINE_BYTES,
    OffsetRange,
    RecordSource,
    SourceUnit,
    csv_fields,
    decode_text,
    split_lines,
)
from moirae.config import FileSource, Stream
from moirae.live.sources.files import HASHED_BYTES, hash_bytes
from moirae.live.sources.growing.content import read_range, read_whole_range
from moirae.live.sources.growing.listing import GrowingFileListing
from sql.archive import GrowingFileRow


def read_header(path: Path, record_format: Format) -> bytes:
    """The header of a file of CSV; empty for others. Raises `OSError`, `EOFError`."""
    if not record_format.has_header:
        return b""
    text = decode_text(read_range(path, 0, MAX_LINE_BYTES), record_format.encoding)
    records = RecordSource(record_format, split_lines(iter([text]), b"\n")).take(1).records
    return records[0] if records else b""


def has_content_of(path: Path, row: GrowingFileRow) -> bool:
    """Whether a file begins like one that was read, and has what was read last of it."""
    try:
        head = read_range(path, 0, row.head_length)
        start = max(0, row.checked_to - HASHED_BYTES)
        checked = read_range(path, start, row.checked_to - start)
    except (OSError, EOFError):
        return False
    return hash_bytes(head) == row.head_hash and hash_bytes(checked) == row.checked_hash


def make_range_unit(
    stream: str,
    declared: Stream,
    row: GrowingFileRow,
    first: int,
    content: bytes,
    header: bytes,
) -> SourceUnit:
    """The unit of complete records, `content`, from the offset `first` on. `header`: see above."""
    assert isinstance(declared.source, FileSource)
    record_format = declared.source.record_format
    starts = _line_starts(content)
    line_ends = b"\n" if record_format.is_csv else b"\r\n"
    text = decode_text(content, record_format.encoding)
    source = RecordSource(record_format, split_lines(iter([text]), line_ends))
    line_numbers, records = source.take(len(starts) + 1)
    positions = (starts[line_numbers - 1] + first).tolist()
    fields = None
    if record_format.is_csv:
        fields = record_format.csv.names or declared.field_names
        if record_format.has_header:
            if not first:
                header, *records = records or [b""]
                positions = positions[1:]
            fields = record_format.csv.names or csv_fields(header.strip(), record_format.csv)
    end = first + len(content)
    return SourceUnit(
        stream=stream,
        name=f"{_place_name(row)}/{first}-{end - 1}",
        format=record_format,
        read=partial(_iterate, records),
        line_numbers=positions,
        fields=fields,
        partition=str(row.number),
        size=len(content),
        next_offset=end,
        place=_place_name(row),
    )


def read_part_name(row: GrowingFileRow) -> str:
    """The name of a unit of all that was read of a file, as if at once."""
    return f"{_place_name(row)}/0-{row.checked_to - 1}"


def find_range(
    stream: str, declared: Stream, base: Path, rows: Sequence[GrowingFileRow], name: str
) -> tuple[Path, SourceUnit] | None:
    """The file that has the range of a unit now, and the unit; None: no file has it any more.

    `rows`: the growing files of the stream. `name`: of the unit.
    """
    assert isinstance(declared.source, FileSource)
    parsed = _parse_unit(name, rows)
    if parsed is None:
        return None
    row, offsets = parsed
    for path in _list_candidates(declared.source, base, row):
        if not has_content_of(path, row):
            continue
        try:
            content = read_whole_range(path, offsets.first, offsets.end - offsets.first)
            header = read_header(path, declared.source.record_format)
        except (OSError, EOFError):
            continue
        return path, make_range_unit(stream, declared, row, offsets.first, content, header)
    return None


def _list_candidates(source: FileSource, base: Path, row: GrowingFileRow) -> Iterator[Path]:
    """Where a file was last seen, then all files of the stream: it may have been renamed."""
    yield base / unescape_name(row.path)
    for file in GrowingFileListing(source.files).list() or ():
        yield file.path


def _parse_unit(
    name: str, rows: Sequence[GrowingFileRow]
) -> tuple[GrowingFileRow, OffsetRange] | None:
    place_name, _, offsets = name.rpartition("/")
    first, _, last = offsets.partition("-")
    if not (first.isdecimal() and last.isdecimal()):
        return None
    for row in rows:
        if _place_name(row) == place_name:
            return row, OffsetRange(int(first), int(last) + 1)
    return None


def _place_name(row: GrowingFileRow) -> str:
    return f"{row.name}#{row.number}"


def _iterate(records: Sequence[bytes]) -> Any:
    return iter(records)


def _line_starts(content: bytes) -> Any:
    """The offset of each line."""
    line_ends = np.flatnonzero(np.frombuffer(content, np.uint8) == ord("\n"))
    return np.concatenate([[0], line_ends + 1])
