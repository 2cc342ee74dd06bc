"""Rows of a stream for rules: in memory or in files."""

from pathlib import Path

from tests.unit.moirae.evaluation.builders import make_rows, make_source
from tests.unit.moirae.evaluation.test_executor_rules import archive, file_rows


def test_rows_in_memory_are_divided_into_halves() -> None:
    halves = make_source(make_rows(1.0, 2.0, 3.0)).divide()
    assert [half.table["v"].to_pylist() for half in halves if half.table is not None] == [
        [1.0],
        [2.0, 3.0],
    ]
    (single,) = make_source(make_rows(1.0)).divide()
    assert single.count == 1


def test_files_are_divided_first_then_the_rows_of_one(tmp_path: Path) -> None:
    rows = file_rows(archive(tmp_path, make_rows(1.0, 2.0, 3.0, 4.0), files=2))
    first, second = make_source(rows).divide()
    assert first.files is not None and second.files is not None
    assert (first.count, second.count) == (2, 2)
    values = [half.table["v"].to_pylist() for half in first.divide() if half.table is not None]
    assert values == [[1.0], [2.0]]


def test_files_with_many_rows_are_not_read(tmp_path: Path) -> None:
    source = make_source(file_rows(archive(tmp_path, make_rows(1.0, 2.0), files=1)))
    assert source.load(1) is None
    loaded = source.load(2)
    assert loaded is not None and loaded.table is not None
    assert len(loaded.table) == 2
