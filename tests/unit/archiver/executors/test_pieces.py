"""Dividing source units among tasks."""

from pathlib import Path

import pytest

from archiver.executors.pieces import (
    LineCount,
    LineRange,
    UnitPiece,
    bundle_pieces,
    choose_piece_records,
    divide_unit,
    is_divisible,
    plan_ranges,
)
from archiver.ingest.source_units import SourceUnit

LARGE = 64 << 20  # bytes


@pytest.mark.parametrize(
    ("name", "size", "expected"),
    [("a.jsonl", LARGE, True), ("a.jsonl", 1000, False), ("a.jsonl.gz", LARGE, False)],
)
def test_large_plain_files_are_divisible(name: str, size: int, expected: bool) -> None:
    unit = SourceUnit("s", name, "jsonl", lambda: iter(()), path=Path(name), size=size)
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


def test_pieces_are_as_large_as_all_cores_having_work_allows() -> None:
    assert choose_piece_records(800_000, cores=2) == 200_000
    assert choose_piece_records(200_000, cores=2) == 100_000
    assert choose_piece_records(10, cores=2) == 25_000


def test_tasks_have_consecutive_pieces() -> None:
    pieces = [UnitPiece(number) for number in range(100)]
    tasks = bundle_pieces(pieces, [1_000.0] * 100, cores=2)
    assert [piece for task in tasks for piece in task] == pieces
    assert 2 <= len(tasks) <= 5
    assert bundle_pieces(pieces[:1], [0.0], cores=2) == [pieces[:1]]
    assert bundle_pieces([], [], cores=2) == []
