"""The table of a stream: appends, late columns, identities, and the choice of files to cluster."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from archiver.delta.archive_tables import list_tables
from archiver.delta.data_files import SettledPlaces, TableFiles
from archiver.delta.files import is_compact
from archiver.delta.identity import fingerprint, row_places
from archiver.delta.log import DataFile
from archiver.delta.row_ids import RowIds, sum_row_ids
from archiver.delta.schema import StreamSchema
from archiver.delta.table import StreamTable, select_for_clustering
from archiver.delta.table_version import read_newest_version, read_version
from archiver.errors import RowsLost
from archiver.time_range import TimeRange

SCHEMA = StreamSchema(
    "s", {"ts": "timestamp", "n": "bigint"}, "ts", ("n",), ("n",), timedelta(0), timedelta(0)
)


def rows(numbers: range, chunk: int = 0) -> pa.Table:
    """Rows of the stream, one microsecond apart; every third is late."""
    count = len(numbers)
    ts = pa.array(numbers, pa.timestamp("us", tz="UTC"))
    content = pa.table(
        {"ts": ts, "n": pa.array(numbers, pa.int64()), "_extra": pa.nulls(count, pa.string())}
    )
    ids, hashes = fingerprint(SCHEMA, content)
    added = {
        "_late": pa.array([number % 3 == 0 for number in numbers]),
        "_id": pa.array(ids, pa.binary()),
        "_hash": pa.array(hashes),
        "_unit": pa.repeat(pa.scalar(1, pa.int64()), count),
        "_line": pa.array(range(count), pa.int64()),
        "chunk": pa.repeat(pa.scalar(chunk, pa.int32()), count),
    }
    for name, values in added.items():
        content = content.append_column(name, values)
    return content


def data_file(name: str, row_count: int) -> DataFile:
    return DataFile(f"chunk=0/{name}", 0, row_count, bytes=1, oldest=0, newest=0)


def test_append_number_is_read_for_unclustered_and_clustered_rows(tmp_path: Path) -> None:
    table = StreamTable(tmp_path, SCHEMA)
    table.append(rows(range(2)), 1)
    table.append(rows(range(2, 4)), 2)
    expected = {0: 1, 1: 1, 2: 2, 3: 2}
    for _ in range(2):
        numbers = table.read(["n", "_append"])
        assert dict(zip(*map(pa.ChunkedArray.to_pylist, numbers.columns), strict=True)) == expected
        table.cluster(0)
    assert table.append_count == 2 and table.count_unclustered(0) == 0


def test_identities_are_computed_for_unclustered_files(tmp_path: Path) -> None:
    table = StreamTable(tmp_path, SCHEMA)
    appended = rows(range(5))
    table.append(appended, 1)
    unclustered = table.read_identities(0)[0]
    table.cluster(0)
    clustered = table.read_identities(0)[0]
    assert sorted(unclustered.tolist()) == sorted(clustered.tolist())
    assert set(unclustered["hash"]) == set(appended["_hash"].to_pylist())


def test_commit_holds_the_identities_that_its_files_have(tmp_path: Path) -> None:
    table = StreamTable(tmp_path, SCHEMA)
    for number in (1, 2):
        table.append(rows(range(5 * number, 5 * number + 5)), number)
    (archive_table,) = list_tables(tmp_path)
    totals = set()
    for _ in range(2):
        version = read_version(archive_table, read_newest_version(archive_table))
        read = {path: table.files.read_row_ids(path) for path in version.files}
        assert version.row_ids == read
        totals.add(RowIds.sum(read.values()))
        table.cluster(0)
    assert len(version.files) == 1 and totals == {sum_row_ids(rows(range(5, 15)))}


def test_late_rows_are_left_out_on_request(tmp_path: Path) -> None:
    table = StreamTable(tmp_path, SCHEMA)
    table.append(rows(range(6)), 1)
    (file,) = table.data_files()
    assert table.read_on_time(file.path, ["n"])["n"].to_pylist() == [1, 2, 4, 5]


def test_files_are_selected_by_time_and_chunk(tmp_path: Path) -> None:
    table = StreamTable(tmp_path, SCHEMA)
    for chunk, start in enumerate((0, 10)):
        table.append(rows(range(start, start + 5), chunk), chunk)
    assert [file.chunk for file in table.data_files(TimeRange(5))] == [1]
    assert [file.chunk for file in table.data_files(TimeRange(None, 10))] == [0]
    assert [file.chunk for file in table.data_files(chunk=1)] == [1]
    assert table.data_files(chunk=2) == []
    assert table.local_paths(chunk=0)[0].startswith(f"{table.data_folder}/chunk=0/a-1-")


def test_deleted_chunk_has_no_rows(tmp_path: Path) -> None:
    table = StreamTable(tmp_path, SCHEMA)
    table.append(rows(range(5)), 1)
    table.delete_chunk(0)
    table.delete_chunk(0)
    assert table.read(["n"]).num_rows == 0 and table.version == 2


@pytest.mark.parametrize(
    ("sizes", "selected"),
    [
        ({"c-s1": 10}, []),
        ({"a-1": 5, "c-s1": 21}, ["a-1"]),
        ({"a-1": 5, "c-s1": 20}, ["a-1", "c-s1"]),
        ({"c-s2": 100, "c-s1": 20, "a-1": 5}, ["a-1", "c-s1", "c-s2"]),
        ({"c-s2": 101, "c-s1": 20, "a-1": 5}, ["a-1", "c-s1"]),
    ],
)
def test_clustered_files_are_rewritten_only_with_enough_new_rows(
    sizes: dict[str, int], selected: list[str]
) -> None:
    files = [data_file(name, row_count) for name, row_count in sizes.items()]
    paths = [file.path for file in select_for_clustering(files, lambda file: is_compact(file.path))]
    assert paths == [f"chunk=0/{name}" for name in selected]


def test_compact_file_stores_nothing_that_can_be_computed(tmp_path: Path) -> None:
    table = StreamTable(tmp_path, SCHEMA)
    for number in (1, 2):
        table.append(rows(range(5 * number, 5 * number + 5)), number)
    before = table.read(["n", "_id", "_hash", "_unit", "_append", "_late"])
    table.cluster(0, settled_places=SettledPlaces(2))
    (file,) = table.data_files()
    stored = pq.read_schema(table.local_paths()[0]).names
    assert stored == ["ts", "n", "_extra", "_late", "_unit", "_append"]
    after = table.read(["n", "_id", "_hash", "_unit", "_append", "_late"])
    assert sorted(map(repr, after.to_pylist())) == sorted(map(repr, before.to_pylist()))
    assert (
        is_compact(file.path)
        and select_for_clustering([file], lambda file: is_compact(file.path)) == []
    )


def test_identities_by_place_are_stored(tmp_path: Path) -> None:
    schema = replace(SCHEMA, id=None, identity="place")
    content = rows(range(5))
    ids, hashes = fingerprint(schema, content, row_places(schema, "unit", np.arange(5)))
    for name, values in (("_id", pa.array(ids, pa.binary())), ("_hash", pa.array(hashes))):
        content = content.set_column(content.column_names.index(name), name, values)
    table = StreamTable(tmp_path, schema)
    table.append(content, 1)
    table.cluster(0, settled_places=SettledPlaces(1))
    stored = pq.read_schema(table.local_paths()[0]).names
    assert "_id" in stored and "_line" in stored and "_hash" not in stored
    read = table.read(["n", "_id", "_hash", "_line"]).to_pylist()
    assert read == content.select(["n", "_id", "_hash", "_line"]).to_pylist()


def test_file_keeps_the_declaration_that_it_was_written_under(tmp_path: Path) -> None:
    """Identities are computed by what the file records, whatever the stream's table says."""
    table = StreamTable(tmp_path, SCHEMA)
    table.append(rows(range(5)), 1)
    table.cluster(0, settled_places=SettledPlaces(1))
    (file,) = table.data_files()
    expected = table.files.read_row_ids(file.path)
    other = TableFiles(replace(SCHEMA, id=None), table.storage)
    assert other.read_row_ids(file.path) == expected


def test_rewritten_rows_are_compared_by_identity(tmp_path: Path) -> None:
    table = StreamTable(tmp_path, SCHEMA)
    table.append(rows(range(5)), 1)
    (file,) = table.data_files()
    with pytest.raises(RowsLost, match="the files stay as they are"):
        table.files.write_compact(0, [replace(file, ids=RowIds(5, 1, 2).tag)])
    assert table.storage.list_files() == [file.path]
