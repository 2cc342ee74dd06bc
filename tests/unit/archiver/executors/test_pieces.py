"""Dividing source units among tasks."""

from pathlib import Path

import pytest

from archiver.executors.pieces import (
    LineCount,
    LineRange,
    UnitPiece,
    bundle_pieces,
    divide_unit,
    is_divisible,
    plan_ranges,
)
from archiver.formats import JSONL
from archiver.ingest.source_units import SourceUnit

LARGE = 64 << 20  # bytes


@pytest.mark.parametrize(
    ("name", "size", "expected"),
    [
        ("a.jsonl", LARGE, True),
        ("a.jsonl", 1000, False),
        ("a.jsonl.gz", LARGE, False),
        ("a.jsonl.zst", LARGE, False),
    ],
)
def test_large_plain_files_are_divisible(name: str, size: int, expected: bool) -> None:
    unit = SourceUnit("s", name, JSONL, lambda: iter(()), path=Path(name), size=size)
    assert is_divisible(unit) is expected


def test_byte_ranges_cover_a_file_to_its_end() -> None:
    ranges = plan_ranges(3, LARGE, cores=2)
    assert [part.start for part in ranges] == [0, *(part.end for part in ranges[:-1])]
    assert ranges[-1].end is None and len(ranges) == 4


def test_pieces_have_the_slices_and_lines_that_a_reader_of_the_whole_file_counts() -> None:
    counts = [LineCount(0, 120_001, 120_001), LineCount(9_000, 100_000, 90_000)]
    pieces = divide_unit(1, counts, header_records=1, piece_records=100_000)
    assert pieces == [
        UnitPiece(1, 0, LineRange(0, 1, 1, 100_000)),
        UnitPiece(1, 0, LineRange(0, 1, 100_001, 100_000)),
        UnitPiece(1, 1, LineRange(9_000, 120_002, 80_000, None)),
    ]


def test_file_with_a_header_only_has_no_pieces() -> None:
    assert divide_unit(0, [LineCount(0, 1, 1)], header_records=1, piece_records=100) == []


def test_tasks_have_consecutive_pieces() -> None:
    pieces = [UnitPiece(number) for number in range(100)]
    tasks = bundle_pieces(pieces, [1_000.0] * 100, cores=2)
    assert [piece for task in tasks for piece in task] == pieces
    assert 2 <= len(tasks) <= 5
    assert bundle_pieces(pieces[:1], [0.0], cores=2) == [pieces[:1]]
    assert bundle_pieces([], [], cores=2) == []


def test_consecutive_pieces_of_a_slice_are_read_as_one() -> None:
    pieces = divide_unit(1, [LineCount(0, 400_000, 400_000)], 0, 25_000)
    tasks = bundle_pieces(pieces, [25_000.0] * len(pieces), cores=3)
    assert tasks == [
        [UnitPiece(1, 0, LineRange(0, 1, 0, 75_000))],
        [UnitPiece(1, 0, LineRange(0, 1, 75_000, 50_000))],
        [UnitPiece(1, 0, LineRange(0, 1, 125_000, 75_000))],
        [UnitPiece(1, 1, LineRange(0, 1, 200_000, 75_000))],
        [UnitPiece(1, 1, LineRange(0, 1, 275_000, 50_000))],
        [UnitPiece(1, 1, LineRange(0, 1, 325_000, None))],
    ]
    two_slices = bundle_pieces(pieces[6:10], [25_000.0] * 4, cores=1)
    assert two_slices == [
        [UnitPiece(1, 0, LineRange(0, 1, 150_000, 50_000))],
        [UnitPiece(1, 1, LineRange(0, 1, 200_000, 50_000))],
    ]
    assert bundle_pieces(pieces[7:9], [10_000.0] * 2, cores=1) == [pieces[7:9]]
