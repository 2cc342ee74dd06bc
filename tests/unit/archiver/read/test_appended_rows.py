"""Rows after certain appends, by ranges of event time."""

from pathlib import Path

from archiver.delta.table import StreamTable
from archiver.read.appended_rows import AppendedRows, RowsAfter
from archiver.time_range import ALL_TIME, TimeRange
from tests.property.test_present_rows import SCHEMA, make_rows


def numbers(reader: AppendedRows) -> list[int]:
    """The numbers of the rows that are read, sorted."""
    (snapshot,) = reader.acquire({"s": ALL_TIME}).values()
    found: list[int] = []
    for rows in snapshot.rows:
        found += rows["n"].to_pylist()
    return sorted(found)


def fill(root: Path) -> StreamTable:
    """Three appends of four rows, half a second apart: two to a chunk, then one to the next."""
    table = StreamTable(root, SCHEMA)
    table.append(make_rows(0, 4, 0, 0), 0)
    table.append(make_rows(4, 4, 0, 4), 1)
    table.append(make_rows(8, 4, 1, 8), 2)
    return table


def test_rows_of_later_appends_are_read(tmp_path: Path) -> None:
    fill(tmp_path)
    reader = AppendedRows(tmp_path, [SCHEMA])
    assert numbers(reader) == []
    reader.rows_after = {"s": RowsAfter([(ALL_TIME, 1)])}
    assert numbers(reader) == [4, 5, 6, 7, 8, 9, 10, 11]
    reader.rows_after = {"s": RowsAfter([(ALL_TIME, 3)])}
    assert numbers(reader) == []


def test_each_range_has_its_own_append(tmp_path: Path) -> None:
    fill(tmp_path)
    reader = AppendedRows(tmp_path, [SCHEMA])
    ranges = [(TimeRange(None, 1_000_000), 0), (TimeRange(3_000_000, 5_000_000), 2)]
    reader.rows_after = {"s": RowsAfter(ranges)}
    assert numbers(reader) == [0, 1, 8, 9]


def test_clustering_changes_nothing(tmp_path: Path) -> None:
    table = fill(tmp_path)
    table.cluster(0)
    reader = AppendedRows(tmp_path, [SCHEMA])
    reader.rows_after = {"s": RowsAfter([(ALL_TIME, 1)])}
    assert numbers(reader) == [4, 5, 6, 7, 8, 9, 10, 11]
    table.append(make_rows(12, 2, 1, 12), 3)
    table.cluster(1)
    reader.rows_after = {"s": RowsAfter([(ALL_TIME, 3)])}
    assert numbers(reader) == [12, 13]
