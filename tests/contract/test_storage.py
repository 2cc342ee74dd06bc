"""Local and object storage behave alike: commits are never overwritten, leased files stay."""

import os
import re
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake.exceptions import DeltaError, TableNotFoundError

import archiver.delta.table
import archiver.storage.s3
from archiver import clock
from archiver.delta import log
from archiver.delta.archive_tables import list_tables
from archiver.delta.column_rewrite import ColumnRewrite, RewriteProgress
from archiver.delta.derived_tables import open_or_create_table, version_root
from archiver.delta.file_checks import check_files
from archiver.delta.generation import begin_generation
from archiver.delta.identity import add_archive_columns, fingerprint
from archiver.delta.revision_table import ArchivedRevision, RevisionTables
from archiver.delta.schema import StreamSchema
from archiver.delta.sequenced_table import EVENTS, SequencedTable
from archiver.delta.table import StreamTable
from archiver.delta.table_version import read_commits, read_newest_version, read_version
from archiver.delta.vacuum import Vacuum
from archiver.errors import CommitConflict, GenerationReplaced, LogDamaged, StorageFailed
from archiver.read.reader import Reader
from archiver.storage.base import StorageRoot, as_storage
from archiver.storage.file_cache import FileCache
from archiver.storage.s3 import S3Storage
from archiver.time_range import TimeRange
from recall.worker.key_counts import _count_keys
from tests.derived_chunks import replace_chunk

SCHEMA = StreamSchema(
    "s", {"ts": "timestamp", "n": "bigint"}, "ts", None, (), timedelta(0), timedelta(0)
)
_SECOND = 1_000_000


def bucket_storage(
    url: str, home: Path, limit: int = 1 << 30, grace: float = 60.0, max_retries: int = 2
) -> S3Storage:
    """An archive in a bucket, as a machine whose local files are in `home` sees it."""
    return S3Storage(url, FileCache(home / "cache", limit, grace), home / "archive", max_retries)


@pytest.fixture(params=["folder", "bucket"])
def archive_on(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], StorageRoot]:
    """The same archive, as the machine of a name sees it: each has its own file cache."""
    if request.param == "folder":
        return lambda name: tmp_path / "archive"
    url = request.getfixturevalue("bucket")
    return lambda name: bucket_storage(url, tmp_path / name)


def rows(numbers: range, chunk: int = 0) -> pa.Table:
    """Rows of the stream, a second apart."""
    count = len(numbers)
    content = pa.table(
        {
            "ts": pa.array([n * _SECOND for n in numbers], pa.timestamp("us", tz="UTC")),
            "n": pa.array(numbers, pa.int64()),
            "_extra": pa.nulls(count, pa.string()),
        }
    )
    ids, hashes = fingerprint(SCHEMA, content)
    zeros = np.zeros(count, np.int64)
    return add_archive_columns(
        content,
        ids,
        hashes,
        zeros.astype(bool),
        units=zeros,
        line_numbers=zeros,
        chunk_ids=zeros + chunk,
    )


def events(after: int, last: int) -> pa.Table:
    """Settled events with the numbers after `after` up to `last`."""
    numbers = range(after + 1, last + 1)
    texts = {name: [name] * len(numbers) for name in ("rule", "version", "key", "attributes")}
    ts = pa.array([n * _SECOND for n in numbers], pa.timestamp("us", tz="UTC"))
    chunk = pa.array([0] * len(numbers), pa.int32())
    return pa.table({"ts": ts, "eid": [str(n) for n in numbers], **texts, "chunk": chunk})


def numbers_in(table: StreamTable) -> list[int]:
    """The values of column n in the newest version."""
    table.refresh()
    return sorted(table.read(["n"])["n"].to_pylist())


def test_every_machine_and_other_delta_readers_see_the_same_rows(
    archive_on: Callable[[str], StorageRoot],
) -> None:
    assert not StreamTable.exists(archive_on("a"), "s")
    writer, follower = StreamTable(archive_on("a"), SCHEMA), StreamTable(archive_on("b"), SCHEMA)
    assert StreamTable.exists(archive_on("b"), "s")
    for start in range(0, 40, 10):
        writer.append(rows(range(start, start + 10), start // 20), start)
    assert numbers_in(follower) == list(range(40))
    follower.cluster(0)
    assert numbers_in(writer) == list(range(40))
    assert (writer.count_unclustered(0), writer.count_unclustered(1)) == (0, 2)
    delta_table = as_storage(archive_on("c") / "streams" / "s").open_table()
    assert sorted(delta_table.to_pyarrow_table()["n"].to_pylist()) == list(range(40))
    snapshot = Reader(archive_on("c"), [SCHEMA]).snapshot("s", TimeRange(25 * _SECOND))
    read = [pq.read_table(path)["n"].to_pylist() for path in snapshot.lease_paths()]
    assert sorted(chain.from_iterable(read)) == list(range(20, 40))
    reader = Reader(archive_on("d"), [SCHEMA])
    (first_file, *_) = reader.local_paths("s", TimeRange(25 * _SECOND))
    keys = _count_keys(reader.open_data_file("s", first_file), ["n"])
    assert set(keys or ()) < set(map(str, range(20, 40)))
    writer.delete_chunk(0)
    assert numbers_in(follower) == list(range(20, 40))


def test_renamed_table_has_its_rows_also_after_an_interruption(
    archive_on: Callable[[str], StorageRoot], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = as_storage(archive_on("a"))
    StreamTable(archive_on("a"), SCHEMA).append(rows(range(10)), 1)
    renamed = replace(SCHEMA, name="t")
    StreamTable(archive_on("a"), renamed)  # an empty one, which is replaced
    with monkeypatch.context() as patched, suppress(KeyboardInterrupt):
        # Interrupted before the old table is removed, where that is a step of its own.
        def interrupt(storage: Any) -> None:
            if str(storage).endswith("/s"):
                raise KeyboardInterrupt
            remove_all(storage)

        remove_all = type(root).remove_all
        patched.setattr(type(root), "remove_all", interrupt)
        (root / "streams" / "s").replace(root / "streams" / "t")
    for _ in range(2):
        (root / "streams" / "s").replace(root / "streams" / "t")
    assert not StreamTable.exists(archive_on("b"), "s")
    table = StreamTable(archive_on("b"), renamed)
    table.append(rows(range(10, 20)), 2)
    assert numbers_in(table) == list(range(20))


def test_files_are_rewritten_for_changed_columns_also_after_an_interruption(
    archive_on: Callable[[str], StorageRoot],
) -> None:
    table = StreamTable(archive_on("a"), SCHEMA)
    for start in range(0, 40, 10):
        table.append(rows(range(start, start + 10), start // 20), start)
    table.cluster(0)
    columns = {"ts": "timestamp", "m": "double"}
    changed = replace(SCHEMA, columns=columns, was={"m": "n"})

    def interrupt(progress: RewriteProgress) -> None:
        if progress.steps_done == 1:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        ColumnRewrite(StreamTable(archive_on("a"), changed)).run(interrupt)
    assert numbers_in(StreamTable(archive_on("b"), SCHEMA)) == list(range(40))
    # Another machine goes on.
    ColumnRewrite(StreamTable(archive_on("b"), changed)).run(lambda _: None)
    expected = list(map(float, range(40)))
    follower = StreamTable(archive_on("a"), changed)
    assert not follower.is_rewriting
    assert sorted(follower.read(["m"])["m"].to_pylist()) == expected
    delta_table = as_storage(archive_on("c") / "streams" / "s").open_table()
    assert sorted(delta_table.to_pyarrow_table()["m"].to_pylist()) == expected
    follower.append(_rename_to_double(rows(range(40, 42), 1)), 41)
    assert sorted(follower.read(["m"])["m"].to_pylist()) == [*expected, 40.0, 41.0]


def _rename_to_double(content: pa.Table) -> pa.Table:
    names = ["m" if name == "n" else name for name in content.column_names]
    renamed = content.rename_columns(names)
    return renamed.set_column(names.index("m"), "m", renamed["m"].cast(pa.float64()))


def test_table_is_reopened_from_a_checkpoint(archive_on: Callable[[str], StorageRoot]) -> None:
    table, outdated = StreamTable(archive_on("a"), SCHEMA), StreamTable(archive_on("b"), SCHEMA)
    with patch.object(log, "_CHECKPOINT_INTERVAL", 3):
        for number in range(5):
            table.append(rows(range(number, number + 1)), number)
            table.checkpoint()
    storage = as_storage(archive_on("a") / "streams" / "s")
    assert storage.exists("_delta_log/_last_checkpoint")
    for number in range(4):
        storage.remove(f"_delta_log/{number:020d}.json")  # as the library does after a day
    outdated.refresh()
    reopened = StreamTable(archive_on("c"), SCHEMA)
    assert numbers_in(outdated) == numbers_in(reopened) == list(range(5))
    assert reopened.append_count == 5
    wider_schema = StreamSchema(
        "s", {**SCHEMA.columns, "host": "string"}, "ts", None, (), timedelta(0), timedelta(0)
    )
    wider_table = StreamTable(archive_on("c"), wider_schema)
    wider_table.append(rows(range(5, 6)).append_column("host", pa.array(["h"])), 5)
    hosts = wider_table.read(["host"])["host"].to_pylist()
    assert sorted(hosts, key=repr) == ["h", *[None] * 5]


def test_concurrent_commits_lose_no_row(archive_on: Callable[[str], StorageRoot]) -> None:
    """Two machines cluster a chunk while a third appends to it; each row exists once."""
    StreamTable(archive_on("w"), SCHEMA)
    errors: list[BaseException] = []

    def run(action: Callable[[], None]) -> None:
        try:
            action()
        except BaseException as error:
            errors.append(error)

    def append() -> None:
        table = StreamTable(archive_on("w"), SCHEMA)
        for number in range(15):
            table.append(rows(range(number * 2, number * 2 + 2)), number)

    def cluster(machine: str) -> None:
        table = StreamTable(archive_on(machine), SCHEMA)
        for _ in range(8):
            with suppress(CommitConflict):
                table.cluster(0)

    actions = [append, partial(cluster, "x"), partial(cluster, "y")]
    threads = [threading.Thread(target=run, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    table = StreamTable(archive_on("z"), SCHEMA)
    assert numbers_in(table) == list(range(30)) and table.append_count == 15


def test_append_of_a_replaced_process_stops_the_next_append(
    archive_on: Callable[[str], StorageRoot],
) -> None:
    """It was frozen between its fence and its commit: its rows are not counted, and come again."""
    replaced, table = StreamTable(archive_on("a"), SCHEMA), StreamTable(archive_on("b"), SCHEMA)
    replaced.append(rows(range(1)), 1)
    table.refresh()
    table.continue_appends()
    table.append(rows(range(1, 2)), 2)
    table.append(rows(range(2, 3)), 3)
    replaced.append(rows(range(3, 4)), 4)
    with pytest.raises(CommitConflict, match="another process has appended rows"):
        table.append(rows(range(4, 5)), 5)
    table.continue_appends()  # they are counted
    table.append(rows(range(4, 5)), 5)
    assert numbers_in(table) == list(range(5))


def test_second_append_after_the_same_number_is_a_conflict(
    archive_on: Callable[[str], StorageRoot],
) -> None:
    first, second = (SequencedTable(archive_on(machine), EVENTS) for machine in "ab")
    first.append(events(0, 4), 0, 4)
    with pytest.raises(CommitConflict):
        second.append(events(0, 6), 0, 6)
    second.append(events(4, 6), 4, 6)
    assert first.last_number() == 6
    assert sorted(map(int, first.read()["eid"].to_pylist())) == [1, 2, 3, 4, 5, 6]
    reopened = SequencedTable(archive_on("c"), EVENTS)
    assert reopened.read("rule", "version").num_rows == 6
    assert reopened.read("another", "version").num_rows == 0


def test_unreferenced_files_are_removed_after_their_retention(
    archive_on: Callable[[str], StorageRoot],
) -> None:
    table, vacuum = StreamTable(archive_on("a"), SCHEMA), Vacuum(10.0)
    table.append(rows(range(3)), 0)
    # A file of a writer that died before its commit.
    table.files.write_append(rows(range(9), 5), 0)
    table.cluster(0)
    assert len(table.unreferenced_files()) == 2 and numbers_in(table) == [0, 1, 2]
    vacuum.run([table], 0.0)
    retention = max(10.0, table.storage.min_file_retention)
    vacuum.run([table], retention - 1.0)
    assert len(table.unreferenced_files()) == 2
    vacuum.run([table], retention)
    assert table.unreferenced_files() == []
    files = [file.path for file in table.data_files()]
    assert as_storage(table.storage).list_files() == files
    assert numbers_in(StreamTable(archive_on("b"), SCHEMA)) == [0, 1, 2]


def test_commit_that_takes_too_long_is_refused(bucket: str, tmp_path: Path) -> None:
    """Files of a commit are retained for twice the time that the commit may take."""
    table = StreamTable(bucket_storage(bucket, tmp_path), SCHEMA)
    vacuum, start = Vacuum(10.0), clock.seconds_since_boot()
    write_file = table.files._write
    max_duration = table.storage.min_file_retention / 2

    def write_slowly(seconds: float, *values: Any, **options: Any) -> Any:
        file = write_file(*values, **options)
        now.return_value = start + seconds
        for moment in (0.0, seconds):
            vacuum.run([table], moment)
        return file

    with (
        patch.object(archiver.delta.table, "seconds_since_boot", return_value=start) as now,
        patch.object(archiver.delta.log, "seconds_since_boot", now),
    ):
        with patch.object(table.files, "_write", partial(write_slowly, max_duration - 1)):
            table.append(rows(range(3)), 0)
        assert numbers_in(table) == [0, 1, 2]
        now.return_value, vacuum = start, Vacuum(10.0)
        with patch.object(table.files, "_write", partial(write_slowly, max_duration + 1)):
            for write_rows in (
                lambda: table.append(rows(range(3)), 1),
                lambda: table.replace_chunk(
                    lambda: table.files.write_append(rows(range(9)), 0),
                    0,
                ),
            ):
                now.return_value, version = start, table.version
                with pytest.raises(
                    StorageFailed, match=r"took 90 minutes .* nothing was committed"
                ):
                    write_rows()
                assert numbers_in(table) == [0, 1, 2] and table.version == version


def test_empty_commit_is_reported_as_damage(archive_on: Callable[[str], StorageRoot]) -> None:
    table = StreamTable(archive_on("a"), SCHEMA)
    with as_storage(table.storage).prepare_commit(b"") as commit:
        assert commit(f"_delta_log/{1:020d}.json")
    with pytest.raises(LogDamaged, match=r"00001\.json: corrupt commit: file is empty"):
        table.refresh()


def test_damaged_data_files_are_listed(archive_on: Callable[[str], StorageRoot]) -> None:
    table = StreamTable(archive_on("a"), SCHEMA)
    table.append(rows(range(3)), 0)
    (file,) = table.data_files()
    storage = as_storage(table.storage)
    (archive_table,) = list_tables(archive_on("b"))

    def problems() -> list[str]:
        files = check_files(archive_table, {})
        assert files is not None
        assert (files.count, files.compared) == (1, 1)
        return [damaged.text for damaged in files.damaged]

    assert problems() == []
    with storage.open_stream(file.path) as source:
        content = bytearray(source.read())
    content[100] ^= 1
    with storage.write_stream(file.path) as target:
        target.write(content)
    assert problems() == [f"{file.path} is not what was written: its SHA-256 differs"]
    storage.remove(file.path)
    assert problems() == [f"{file.path} is missing"]
    with pytest.raises(FileNotFoundError):
        table.read(["n"])
    with storage.write_stream(file.path) as target:
        target.write(b"short")
    assert problems() == [f"{file.path} has 5 bytes, {file.bytes:,} according to the log"]


def test_tables_of_all_kinds_are_listed(archive_on: Callable[[str], StorageRoot]) -> None:
    root = archive_on("a")
    assert list_tables(root) == []
    StreamTable(root, SCHEMA)
    open_or_create_table(root, "load", "v1", pa.schema([("ts", pa.timestamp("us", "UTC"))]))
    SequencedTable(root, EVENTS)
    revision = ArchivedRevision(
        1, "e", datetime(2026, 1, 1, tzinfo=UTC), "insert", "k", {}, None, "v"
    )
    RevisionTables(root, "r.norm-1", "g/r").append([revision])
    names = {table.name: table.kind for table in list_tables(archive_on("b"))}
    assert names == {
        "streams/s": "stream",
        "derived/v1/streams/load": "derived",
        "events": "events",
        "recalls/revisions/r.norm-1": "revisions",
        "recalls/rows/r.norm-1": "rows",
    }


def test_version_of_a_table_has_its_files_and_the_log_that_readers_need(
    archive_on: Callable[[str], StorageRoot], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "_CHECKPOINT_INTERVAL", 3)
    root = archive_on("a")
    table = StreamTable(root, SCHEMA)
    for n in range(4):
        table.append(rows(range(n, n + 1)), 0)
    table.checkpoint()
    for n in range(4, 6):
        table.append(rows(range(n, n + 1)), 0)
    (archive_table,) = list_tables(root)
    assert read_newest_version(archive_table) == 6
    version = read_version(archive_table, 5)
    assert (version.version, version.number, len(version.files)) == (5, 5, 5)
    copy = as_storage(archive_on("a")) / "copy" / "streams" / "s"
    for name, content in version.log_files.items():
        with copy.write_stream(name) as file:
            file.write(content)
    for path in version.files:
        with archive_table.storage.open_stream(path) as source, copy.write_stream(path) as target:
            target.write(source.read())
    copied = StreamTable(as_storage(archive_on("a")) / "copy", SCHEMA)
    assert (copied.version, copied.append_count) == (5, 5)
    assert sorted(copied.read(["n"])["n"].to_pylist()) == list(range(5))
    commits = read_commits(archive_table, 5, 6)
    assert [(c.version, c.number, c.changes_data, len(c.added)) for c in commits] == [
        (5, 5, True, 1),
        (6, 6, True, 1),
    ]


def test_process_that_opened_a_table_before_it_was_restored_cannot_write(
    archive_on: Callable[[str], StorageRoot],
) -> None:
    earlier = StreamTable(archive_on("a"), SCHEMA)
    earlier.append(rows(range(1)), 0)
    idle = StreamTable(archive_on("a"), SCHEMA)
    begin_generation(as_storage(archive_on("b")) / "streams" / "s", 2, 1)
    begin_generation(as_storage(archive_on("b")) / "streams" / "s", 2, 1)
    restored = StreamTable(archive_on("b"), SCHEMA)
    assert restored.version == earlier.version + 1
    restored.append(rows(range(1, 2)), 0)
    with pytest.raises(GenerationReplaced, match="generation 2, not 1"):
        earlier.append(rows(range(2, 3)), 0)
    # As if the log of the restored table had grown to where this process was.
    idle._log.version = restored.version - 1
    with pytest.raises(GenerationReplaced):
        idle.append(rows(range(2, 3)), 0)
    assert restored.read(["n"])["n"].to_pylist() == [0, 1]


def test_stream_appears_whole_or_not_at_all(archive_on: Callable[[str], StorageRoot]) -> None:
    storage = as_storage(archive_on("a"))
    with storage.write_stream("folder/whole") as file:
        file.write(b"content")
    writing = storage.write_stream("folder/part")
    writing.__enter__().write(b"con")
    assert not writing.__exit__(ValueError, ValueError("killed"), None)
    assert as_storage(archive_on("b")).list_sizes() == {"folder/whole": 7}
    assert as_storage(archive_on("b")).list_folders() == ["folder"]
    with storage.open_stream("folder/whole") as file:
        assert (file.read(3), file.read()) == (b"con", b"tent")
    with pytest.raises(FileNotFoundError), storage.open_stream("folder/part"):
        pass


def test_versions_of_derived_streams_are_created_touched_and_removed(
    archive_on: Callable[[str], StorageRoot],
) -> None:
    root = archive_on("a")
    ts = pa.array([1, 2], pa.timestamp("us", tz="UTC"))
    rows = pa.table({"ts": ts, "v": pa.array([1.0, 2.0])})
    for version in ("v1", "v2", "v1"):
        replace_chunk(open_or_create_table(root, "d", version, rows.schema), rows, 0)
    before = as_storage(root / "derived").folder_use_times()
    assert before.keys() == {"v1", "v2"}
    as_storage(version_root(root, "v1") / "streams" / "d").touch()
    after = as_storage(root / "derived").folder_use_times()
    assert after["v1"] >= before["v1"] and after["v2"] == before["v2"]
    as_storage(version_root(root, "v1")).remove_all()
    assert as_storage(root / "derived").folder_use_times().keys() == {"v2"}
    with pytest.raises(TableNotFoundError):
        as_storage(version_root(root, "v1") / "streams" / "d").open_table()


def test_cache_stays_within_its_limit_except_for_leased_files(bucket: str, tmp_path: Path) -> None:
    writer = StreamTable(bucket_storage(bucket, tmp_path / "w"), SCHEMA)
    for number in range(6):
        writer.append(rows(range(number * 1000, number * 1000 + 1000)), number)
    size = max(file.bytes for file in writer.data_files())
    home = tmp_path / "r"
    table = StreamTable(bucket_storage(bucket, home, limit=2 * size + size // 2), SCHEMA)
    leased_paths = [Path(path) for path in table.lease_paths(table.data_files()[:3])]
    assert all(path.is_file() for path in leased_paths)
    assert len(table.read(["n"])) == 6000
    copies = list((home / "cache").rglob("*.parquet"))
    assert all(path.is_file() for path in leased_paths), "leased files stay beyond the limit"
    assert len(copies) == 3, "other files are evicted"
    for path in leased_paths:
        os.utime(path, (1, path.stat().st_mtime))  # the lease has ended
    FileCache(home / "cache", 2 * size + size // 2, 60.0).evict(size)
    assert len(list((home / "cache").rglob("*.parquet"))) == 1
    assert len(table.read(["n"])) == 6000, "evicted files are fetched again"
    assert not list((home / "cache").rglob(".*.part"))


def test_leased_paths_exist_while_other_readers_evict_files(bucket: str, tmp_path: Path) -> None:
    """Several readers fill one cache beyond its limit."""
    writer = StreamTable(bucket_storage(bucket, tmp_path / "w"), SCHEMA)
    for number in range(4):
        writer.append(rows(range(number * 10, number * 10 + 10)), number)
    errors: list[BaseException] = []

    def read(reader: int) -> None:
        try:
            table = StreamTable(bucket_storage(bucket, tmp_path / "r", limit=1), SCHEMA)
            for attempt in range(12):
                file = table.data_files()[(reader + attempt) % 4]
                if attempt % 2:
                    assert table.read_file(file.path, ["n"]).num_rows == 10
                else:
                    assert pq.read_table(table.lease_paths([file])[0]).num_rows == 10
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=read, args=(reader,)) for reader in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_unusable_object_storage_is_reported_with_its_reason(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket_storage(bucket, tmp_path).check()
    assert list(as_storage(bucket_storage(bucket, tmp_path)).folder_use_times()) == []
    put = obstore.put

    def put_always(*values: Any, mode: str = "overwrite", **options: Any) -> Any:
        return put(*values, mode="overwrite", **options)

    with (
        patch.object(obstore, "put", put_always),
        pytest.raises(StorageFailed, match="ignores If-None-Match"),
    ):
        bucket_storage(bucket, tmp_path).check()
    with pytest.raises(StorageFailed, match="archive s3://no-such-bucket/a: no such bucket"):
        bucket_storage("s3://no-such-bucket/a", tmp_path).check()
    for open_archive in (StreamTable, lambda root, schema: StreamTable.exists(root, "s")):
        with pytest.raises(StorageFailed, match="archive s3://no-such-bucket/a: no such bucket"):
            open_archive(bucket_storage("s3://no-such-bucket/a", tmp_path), SCHEMA)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    for access in (S3Storage.check, lambda storage: StreamTable(storage, SCHEMA)):
        with pytest.raises(
            StorageFailed,
            match=r"archive s3://.*: access denied: check the credentials in the environ",
        ):
            access(bucket_storage(bucket, tmp_path))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(StorageFailed, match=r"archive s3://\S+: .*after 2 retries"):
        bucket_storage(bucket, tmp_path).check()
    with pytest.raises(StorageFailed, match="archive s3://"):
        StreamTable(bucket_storage(bucket, tmp_path), SCHEMA)


def test_fetched_files_are_closed(bucket: str, tmp_path: Path) -> None:
    writer, reader = bucket_storage(bucket, tmp_path / "w"), bucket_storage(bucket, tmp_path / "r")
    names = [f"chunk=0/{number}.parquet" for number in range(5)]
    for name in names:
        with writer.write_data_file(name) as path:
            path.write_bytes(b"x")
    fetch_file, fetched = reader._fetch_file, []

    def record(name: str, lease: bool) -> Any:
        fetched.append(fetch_file(name, lease))
        return fetched[-1]

    with patch.object(reader, "_fetch_file", record):
        assert len(reader.lease_paths(names)) == len(fetched) == len(names)
    assert all(file.closed for file in fetched)


def test_large_files_are_uploaded_in_parts(bucket: str, tmp_path: Path) -> None:
    content, name = os.urandom(12 << 20), "chunk=0/a.parquet"
    with (
        patch.object(archiver.storage.s3, "_MULTIPART_SIZE", 1 << 20),
        bucket_storage(bucket, tmp_path / "w").write_data_file(name) as path,
    ):
        path.write_bytes(content)
    reader = bucket_storage(bucket, tmp_path / "r")
    assert reader.list_files() == [name]
    (local_path,) = reader.lease_paths([name])
    assert Path(local_path).read_bytes() == content


def test_commit_with_a_lost_response_succeeds_when_repeated(bucket: str, tmp_path: Path) -> None:
    """The repeated request finds the object of the first one."""
    storage = bucket_storage(bucket, tmp_path)
    put = obstore.put

    def put_twice(*values: Any, **options: Any) -> Any:
        put(*values, **options)
        return put(*values, **options)

    with patch.object(obstore, "put", put_twice), storage.prepare_commit(b"first") as commit:
        assert commit("a")
    with storage.prepare_commit(b"second") as commit:
        assert not commit("a") and commit("b")
    assert (storage.read_log_file("a"), storage.read_log_file("b")) == (b"first", b"second")


@contextmanager
def serve_response(status: int, text: bytes) -> Iterator[str]:
    """Yield the address of an HTTP server that gives this response to all requests."""

    class Handler(BaseHTTPRequestHandler):
        def respond(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(text)

        do_GET = do_PUT = do_POST = do_HEAD = respond  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (400, "ExpiredToken", "access denied: check the credentials"),
        (400, "InvalidRequest", r"status code 400 \(InvalidRequest\)"),
        (404, "NoSuchKey", ""),
    ],
)
def test_errors_contain_no_credentials(
    status: int, code: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    response = (
        f'<?xml version="1.0"?><Error><Code>{code}</Code><Token-0>s3cret-token</Token-0></Error>'
    )
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        monkeypatch.setenv(name, "s3cret")
    with serve_response(status, response.encode()) as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://user:s3cret@{address}")
        storage = bucket_storage("s3://b/p", tmp_path)

        def raise_delta_error() -> None:
            with storage.translate_errors():
                raise DeltaError(
                    f"error at http://user:s3cret@{address}/b?X-Token=s3cret: 500 <a>s3cret</a>"
                )

        messages = []
        for access in (
            storage.check,
            lambda: storage.read_log_file("a"),
            storage.open_table,
            storage.remove_all,
            raise_delta_error,
        ):
            with pytest.raises((StorageFailed, OSError, TableNotFoundError)) as caught:
                access()
            messages.append("".join(traceback.format_exception(caught.value)))
    assert not [text for text in messages if "s3cret" in text], messages
    assert any(address in text for text in messages)
    assert status == 404 or re.search(expected, messages[0])
