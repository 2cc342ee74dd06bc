"""Byte ranges and line ranges of files: each line is read by exactly one of them."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from archiver.executors.pieces import ByteRange, UnitPiece, divide_unit
from archiver.executors.tasks import reading
from archiver.executors.tasks.reading import _read_line_range, count_lines, read_pieces
from archiver.formats import CSV, JSONL
from archiver.ingest import SourceUnit, read_lines, source_units
from tests.formats import declare

CONTENTS = [
    b"\xef\xbb\xbfa,b\n1,2\n\n  \r\n3,4\r\n5,6",
    b"\n\n\na\n",
    b"\xef\xbb\xbf\n{}\n{}\n",
    b"one line",
    b"",
]


def make_unit(path: Path, content: bytes) -> SourceUnit:
    """A unit of a file."""
    path.write_bytes(content)
    return SourceUnit("s", path.name, JSONL, partial(read_lines, path), path=path, size=1)


def number_lines(content: bytes) -> list[tuple[int, bytes]]:
    """The records of a file and their line numbers."""
    lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    numbered = [(number, line.rstrip(b"\r")) for number, line in enumerate(lines, 1)]
    return [(number, line) for number, line in numbered if line.strip()]


@pytest.mark.parametrize("content", CONTENTS)
def test_pieces_between_any_bounds_have_the_lines_of_the_file(
    tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_READ_SIZE", 4)
    unit = make_unit(tmp_path / "a.jsonl", content)
    expected = number_lines(content)
    size = len(content)
    for first in range(1, size + 1):
        for second in range(first, size + 1):
            bounds = [0, first, second]
            ends: list[int | None] = [first, second, None]
            counts = []
            for start, end in zip(bounds, ends, strict=True):
                counted = count_lines(unit, ByteRange(0, start, end))
                assert counted is not None
                counts += counted.counts
            assert sum(count.records for count in counts) == len(expected)
            for piece_records in (1, 2):
                lines = []
                for piece in divide_unit(0, counts, 0, piece_records):
                    assert piece.lines is not None
                    lines += zip(*_read_line_range(unit, piece.lines), strict=True)
                assert lines == expected


def test_header_is_the_first_record(tmp_path: Path) -> None:
    unit = make_unit(tmp_path / "a.csv", CONTENTS[0])
    counted = count_lines(unit, ByteRange(0, 0, 5))
    assert counted is not None and counted.header == b"a,b"


def test_a_file_that_names_its_delimiter_is_read_as_a_whole(tmp_path: Path) -> None:
    unit = replace(make_unit(tmp_path / "a.csv", b"sep=,\na,b\n1,2\n"), format=CSV)
    counted = count_lines(unit, ByteRange(0, 0, None))
    assert counted is not None and not counted.is_linewise


def test_missing_file_has_no_count(tmp_path: Path) -> None:
    unit = make_unit(tmp_path / "a.jsonl", b"x\n")
    (tmp_path / "a.jsonl").unlink()
    assert count_lines(unit, ByteRange(0, 0, None)) is None


def test_small_files_are_decoded_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []
    decode_blocks = source_units.decode_blocks

    def count(schema, reading, records, first):  # type: ignore[no-untyped-def]
        decoded.append(len(records))
        return decode_blocks(schema, reading, records, first)

    monkeypatch.setattr(source_units, "decode_blocks", count)
    contents = [b'{"ts":1,"v":0}\n', b"", b'{"ts":1,"v":1}\nno row\n', b'{"ts":1,"v":3}\n']
    units = {
        number: make_unit(tmp_path / f"{number}.jsonl", content)
        for number, content in enumerate(contents)
    }
    pieces = read_pieces(map(UnitPiece, units), units, {"s": declare({"v": "int"})}, lambda _: 0)
    values = {
        piece.unit: [batch.rows.table["v"].to_pylist() for batch in batches]
        for piece, batches in pieces
    }
    assert values == {0: [[0]], 1: [], 2: [[1]], 3: [[3]]}
    assert decoded == [4]
