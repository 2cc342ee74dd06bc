"""The Delta log: following commits, refusing conflicting ones, and bounds of event times."""

from dataclasses import replace
from pathlib import Path

import orjson
import pyarrow as pa
import pytest

from archiver.delta.log import ChunkFiles, DataFile, DeltaLog, open_or_create_delta_table
from archiver.errors import CommitConflict, LogDamaged
from archiver.storage.base import LocalStorage
from archiver.time_range import TimeRange

SCHEMA = pa.schema([("ts", pa.timestamp("us", tz="UTC")), ("chunk", pa.int32())])
FILE = DataFile("chunk=0/a-1.parquet", 0, rows=5, bytes=100, oldest=1_000, newest=2_000)
OTHER_FILE = replace(FILE, path="chunk=0/a-2.parquet", oldest=500, newest=1_500)


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path)


def open_log(storage: LocalStorage) -> DeltaLog:
    table = open_or_create_delta_table(storage, SCHEMA)
    return DeltaLog(storage, "ts", table, application_id="rows")


def test_commits_of_another_process_are_followed(storage: LocalStorage) -> None:
    writer, follower = open_log(storage), open_log(storage)
    writer.commit("WRITE", add=[FILE, OTHER_FILE], sequence_range=(0, 10))
    follower.refresh()
    assert (follower.version, follower.sequence_number) == (1, 10)
    chunk_files = follower.files_by_chunk[0]
    assert (chunk_files.file_count, chunk_files.rows, chunk_files.bytes) == (2, 10, 200)
    assert (chunk_files.oldest, chunk_files.newest) == (500, 2_000)
    writer.commit("DELETE", remove=[FILE, OTHER_FILE])
    follower.refresh()
    assert follower.files_by_chunk == {} and follower.sequence_number == 10


def test_reopened_log_equals_the_followed_one(storage: LocalStorage) -> None:
    log = open_log(storage)
    log.commit("WRITE", add=[FILE], sequence_range=(0, 3))
    reopened = open_log(storage)
    assert reopened.files_by_chunk == log.files_by_chunk
    assert (reopened.version, reopened.sequence_number) == (log.version, 3)


def test_commit_after_another_sequence_number_is_a_conflict(storage: LocalStorage) -> None:
    log = open_log(storage)
    log.commit("WRITE", add=[FILE], sequence_range=(0, 3))
    with pytest.raises(CommitConflict):
        log.commit("WRITE", add=[OTHER_FILE], sequence_range=(2, 5))
    assert log.version == 1


def test_removal_of_a_file_that_is_gone_is_a_conflict(storage: LocalStorage) -> None:
    with pytest.raises(CommitConflict):
        open_log(storage).commit("DELETE", remove=[FILE])


def test_replacement_of_a_chunk_that_has_more_files_is_a_conflict(storage: LocalStorage) -> None:
    log = open_log(storage)
    log.commit("WRITE", add=[FILE, OTHER_FILE])
    with pytest.raises(CommitConflict):
        log.commit("WRITE", remove=[FILE], replaced_chunk=0)


@pytest.mark.parametrize(
    ("removed", "data_change"), [((), True), ((FILE,), False)], ids=["append", "rewrite"]
)
def test_only_rewrites_are_marked_as_no_change_of_data(
    storage: LocalStorage, removed: tuple[DataFile, ...], data_change: bool
) -> None:
    log = open_log(storage)
    log.commit("WRITE", add=[FILE])
    log.commit("OPTIMIZE", add=[OTHER_FILE], remove=removed, user_metadata={"batch": 7})
    lines = storage.read_log_file(f"_delta_log/{2:020d}.json").splitlines()
    commit_info, *actions = map(orjson.loads, lines)
    assert commit_info["commitInfo"]["operation"] == "OPTIMIZE"
    assert commit_info["commitInfo"]["userMetadata"] == '{"batch":7}'
    for action in actions:
        (body,) = action.values()
        assert body["dataChange"] is data_change


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"", "file is empty"), (b"{", "unexpected end"), (b'{"add": {}}', "'path'")],
)
def test_invalid_commit_is_reported_with_its_file(
    storage: LocalStorage, content: bytes, reason: str
) -> None:
    log = open_log(storage)
    with storage.prepare_commit(content) as commit:
        assert commit(f"_delta_log/{1:020d}.json")
    with pytest.raises(LogDamaged, match=f"{1:020d}.json: corrupt commit: .*{reason}"):
        log.refresh()
    assert log.version == 0


@pytest.mark.parametrize(
    ("start", "end", "overlaps"),
    [
        (None, None, True),
        (2_000, None, True),
        (2_001, None, False),
        (None, 1_000, False),
        (None, 1_001, True),
    ],
)
def test_time_ranges_include_their_start_and_exclude_their_end(
    start: int | None, end: int | None, overlaps: bool
) -> None:
    assert FILE.overlaps(TimeRange(start, end)) is overlaps
    chunk_files = ChunkFiles()
    chunk_files.add(FILE)
    assert chunk_files.overlaps(TimeRange(start, end)) is overlaps


def test_bounds_of_files_of_other_writers_are_inexact() -> None:
    assert FILE.has_exact_bounds
    assert not replace(FILE, path="chunk=0/part-1.parquet").has_exact_bounds
