"""Files of closed chunks are rewritten, once."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from archiver.chunks.compaction import Compaction
from archiver.delta import DataFile, RewriteFunction, SettledPlaces, TableFiles
from archiver.delta.table import StreamTable
from tests.unit.archiver.delta.test_table import SCHEMA, rows


def read(table: StreamTable) -> list[dict[str, Any]]:
    names = ["n", "_id", "_hash", "_unit", "_append"]
    return sorted(table.read(names).to_pylist(), key=lambda row: row["n"])


def test_closed_chunks_are_rewritten_the_newest_first(tmp_path: Path) -> None:
    table = StreamTable(tmp_path, SCHEMA)
    for chunk in range(3):
        for part in range(2):
            start = 10 * chunk + 5 * part
            table.append(rows(range(start, start + 5), chunk), 1)
    expected = read(table)
    compaction = Compaction([StreamTable(tmp_path, SCHEMA)], lambda: {"s": SettledPlaces(6)})
    steps = compaction.plan({0, 1})
    assert [step.chunk for step in steps] == [1, 0]
    for step in steps:
        compaction.run(step)
    table.refresh()
    assert read(table) == expected
    assert [len(table.data_files(chunk=chunk)) for chunk in range(3)] == [1, 1, 2]
    assert table.read(["_line"], chunk=0)["_line"].null_count == 10
    assert compaction.plan({0, 1}) == []


def test_file_with_lines_is_rewritten_once_no_source_needs_them(tmp_path: Path) -> None:
    table = StreamTable(tmp_path, SCHEMA)
    table.append(rows(range(5)), 1)
    open_places = {"s": SettledPlaces(1, frozenset({1}))}
    compaction = Compaction([table], lambda: open_places)
    (step,) = compaction.plan({0})
    compaction.run(step)
    assert table.read(["_line"])["_line"].to_pylist() == list(range(5))
    for places in ({}, {"s": SettledPlaces(0)}, {"s": SettledPlaces(2, frozenset({1, 9}))}):
        assert Compaction([table], lambda places=places: places).plan({0}) == []
    compaction = Compaction([table], lambda: {"s": SettledPlaces(1, frozenset({9}))})
    (step,) = compaction.plan({0})
    compaction.run(step)
    assert table.read(["_line"])["_line"].null_count == 5
    assert compaction.plan({0}) == []


def test_chunk_that_another_process_rewrites_is_left_to_it(tmp_path: Path) -> None:
    table, other = StreamTable(tmp_path, SCHEMA), StreamTable(tmp_path, SCHEMA)
    table.append(rows(range(5)), 1)
    other.refresh()

    compaction = Compaction([table], dict, rewrite_twice(other))
    (step,) = compaction.plan({0})
    compaction.run(step)
    assert read(table) == read(other) and len(table.data_files()) == 1


def rewrite_twice(other: StreamTable) -> RewriteFunction:
    """While a file is written, another process commits the same."""

    def rewrite(
        files: TableFiles, chunk: int, members: Sequence[DataFile], settled_places: SettledPlaces
    ) -> DataFile:
        other.cluster(chunk, settled_places=settled_places)
        return files.write_compact(chunk, members, settled_places)

    return rewrite
