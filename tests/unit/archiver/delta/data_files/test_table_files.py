"""Data files without a log: written by one process, committed by another."""

import pickle
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from archiver.clock import seconds_since_boot
from archiver.delta.data_files.table_files import append_number
from archiver.delta.schema import StreamSchema
from archiver.delta.table import StreamTable
from archiver.delta.vacuum import Vacuum
from archiver.errors import CommitConflict, DataFileDamaged, StorageFailed

SCHEMA = StreamSchema(
    "s", {"ts": "timestamp", "n": "bigint"}, "ts", ("n",), (), timedelta(0), timedelta(0)
)


def rows(chunk_ids: list[int]) -> pa.Table:
    """A row for each chunk, with the columns of an append."""
    count = len(chunk_ids)
    return pa.table(
        {
            "ts": pa.array(range(count), pa.timestamp("us", tz="UTC")),
            "n": range(count),
            "_extra": pa.nulls(count, pa.string()),
            "_late": [False] * count,
            "_id": [bytes([number]) * 16 for number in range(count)],
            "_hash": range(count),
            "_unit": [1] * count,
            "_line": range(count),
            "chunk": pa.array(chunk_ids, pa.int32()),
        }
    )


def test_files_of_another_process_are_rows_after_their_commit(tmp_path: Path) -> None:
    table = StreamTable(tmp_path, SCHEMA)
    number = table.start_append()
    files = pickle.loads(pickle.dumps(table.files)).write_append(rows([0, 1, 0]), number)
    assert [(file.chunk, file.rows, file.oldest, file.newest) for file in files] == [
        (0, 2, 0, 2),
        (1, 1, 1, 1),
    ]
    assert len(table.read(["n"])) == 0
    table.commit_append(files, number, 7, seconds_since_boot())
    assert sorted(table.read(["n"])["n"].to_pylist()) == [0, 1, 2]
    assert table.append_count == 1


def test_append_is_refused_after_another_append(tmp_path: Path) -> None:
    table = StreamTable(tmp_path, SCHEMA)
    number = table.start_append()
    files = table.files.write_append(rows([0]), number)
    StreamTable(tmp_path, SCHEMA).append(rows([0]), 0)
    with pytest.raises(CommitConflict):
        table.commit_append(files, number, 0, seconds_since_boot())
    assert len(table.read(["n"])) == 1


def test_files_of_a_slow_append_are_not_vacuumed(tmp_path: Path) -> None:
    table = StreamTable(tmp_path, SCHEMA)
    vacuum = Vacuum(file_retention=1.0)
    files = table.files.write_append(rows([0, 1]), table.start_append())
    for now in (0.0, 5.0, 10.0):
        vacuum.run([StreamTable(tmp_path, SCHEMA)], now)
    table.commit_append(files, 1, 0, seconds_since_boot())
    assert len(table.read(["n"])) == 2


def test_files_of_a_killed_process_are_vacuumed_after_the_next_append(tmp_path: Path) -> None:
    table = StreamTable(tmp_path, SCHEMA)
    table.files.write_append(rows([0]), table.start_append())
    vacuum = Vacuum(file_retention=1.0)
    StreamTable(tmp_path, SCHEMA).append(rows([0]), 0)
    for now in (0.0, 0.5):
        vacuum.run([table], now)
    assert len(table.storage.list_files()) == 2
    vacuum.run([table], 1.0)
    assert table.storage.list_files() == [file.path for file in table.data_files()]


def test_commit_is_refused_when_a_file_is_gone(tmp_path: Path) -> None:
    table = StreamTable(tmp_path, SCHEMA)
    files = table.files.write_append(rows([0, 1]), table.start_append())
    table.storage.remove(files[1].path)
    with pytest.raises(StorageFailed, match="deleted before its commit"):
        table.commit_append(files, 1, 0, seconds_since_boot())
    assert table.append_count == 0


def test_damaged_data_file_is_named_with_the_remedy(tmp_path: Path) -> None:
    table = StreamTable(tmp_path, SCHEMA)
    number = table.start_append()
    (file,) = table.files.write_append(rows([0]), number)
    table.commit_append([file], number, 1, seconds_since_boot())
    path = next(tmp_path.rglob("*.parquet"))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataFileDamaged, match=rf"{path.name}: cannot read .* run `moirae doctor`"):
        table.read_identities(0)
    path.unlink()
    with pytest.raises(DataFileDamaged, match=path.name):
        table.read_identities(0)


@pytest.mark.parametrize(
    ("name", "number"),
    [("a-12-0f.parquet", 12), ("c-12-0f.parquet", 12), ("a-0f.parquet", 0), ("part-1", None)],
)
def test_append_number_is_parsed_from_file_names(name: str, number: int | None) -> None:
    assert append_number(f"chunk=0/{name}") == number
