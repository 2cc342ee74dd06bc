"""An archive in a folder and one in a bucket do the same: commits that nobody overwrites, files that stay."""

import os
import re
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest.mock import patch

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake.exceptions import DeltaError, TableNotFoundError

import archiver.delta.table
import archiver.storage.s3
from archiver import clock
from archiver.delta import log
from archiver.delta.derived_tables import open_or_create_table, replace_chunk, version_root
from archiver.delta.schema import StreamSchema
from archiver.delta.sequenced_table import EVENTS, SequencedTable
from archiver.delta.table import StreamTable
from archiver.delta.vacuum import Vacuum
from archiver.errors import CommitConflict, LogDamaged, StorageFailed
from archiver.read.reader import Reader
from archiver.storage.base import StorageRoot, as_storage
from archiver.storage.file_cache import FileCache
from archiver.storage.s3 import S3Storage
from recall.worker.key_counts import _count_keys

SCHEMA = StreamSchema(
    "s", {"ts": "timestamp", "n": "bigint"}, "ts", None, (), timedelta(0), timedelta(0)
)
_SECOND = 1_000_000


def stored(
    url: str, home: Path, limit: int = 1 << 30, grace: float = 60.0, tries: int = 2
) -> S3Storage:
    """An archive in a bucket, seen from a machine of its own."""
    return S3Storage(url, FileCache(home / "cache", limit, grace), home / "archive", tries)


@pytest.fixture(params=["folder", "bucket"])
def seen(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], StorageRoot]:
    """One archive, as it is seen from a machine of that name."""
    if request.param == "folder":
        return lambda name: tmp_path / "archive"
    url = request.getfixturevalue("bucket")
    return lambda name: stored(url, tmp_path / name)


def rows(numbers: range, chunk: int = 0) -> pa.Table:
    """Rows of the stream, a second apart."""
    count = len(numbers)
    return pa.table(
        {
            "ts": pa.array([n * _SECOND for n in numbers], pa.timestamp("us", tz="UTC")),
            "n": pa.array(numbers, pa.int64()),
            "_extra": pa.nulls(count, pa.string()),
            "_late": pa.array([False] * count),
            "_id": pa.array([b"0" * 16] * count, pa.binary()),
            **{name: pa.array([0] * count, pa.int64()) for name in ("_hash", "_unit", "_line")},
            "chunk": pa.array([chunk] * count, pa.int32()),
        }
    )


def events(after: int, last: int) -> pa.Table:
    """Settled events numbered so."""
    numbers = range(after + 1, last + 1)
    texts = {name: [name] * len(numbers) for name in ("rule", "version", "key", "attributes")}
    ts = pa.array([n * _SECOND for n in numbers], pa.timestamp("us", tz="UTC"))
    chunk = pa.array([0] * len(numbers), pa.int32())
    return pa.table({"ts": ts, "eid": [str(n) for n in numbers], **texts, "chunk": chunk})


def held(table: StreamTable) -> list[int]:
    table.refresh()
    return sorted(table.read(["n"])["n"].to_pylist())


def test_rows_are_there_for_every_machine_and_for_other_readers_of_delta(
    seen: Callable[[str], StorageRoot],
) -> None:
    assert not StreamTable.exists(seen("a"), "s")
    table, other = StreamTable(seen("a"), SCHEMA), StreamTable(seen("b"), SCHEMA)
    assert StreamTable.exists(seen("b"), "s")
    for start in range(0, 40, 10):
        table.append(rows(range(start, start + 10), start // 20), start)
    assert held(other) == list(range(40))
    other.cluster(0)
    assert (
        held(table) == list(range(40))
        and table.count_unclustered(0) == 0
        and table.count_unclustered(1) == 2
    )
    library = as_storage(seen("c") / "streams" / "s").open_table()
    assert sorted(library.to_pyarrow_table()["n"].to_pylist()) == list(range(40))
    reader = Reader(seen("c"), [SCHEMA])
    pinned = reader.snapshot("s", 25 * _SECOND, None)
    assert sorted(
        n for path in pinned.lease_paths() for n in pq.read_table(path)["n"].to_pylist()
    ) == list(range(20, 40))
    elsewhere = Reader(seen("d"), [SCHEMA])
    (late, *_) = elsewhere.local_paths("s", 25 * _SECOND, None)
    assert set(_count_keys(elsewhere.open_data_file("s", late), "n") or ()) < set(
        map(str, range(20, 40))
    )
    table.delete_chunk(0)
    assert held(other) == list(range(20, 40)) and other.missing_files() == []


def test_tables_are_opened_again_from_a_checkpoint(seen: Callable[[str], StorageRoot]) -> None:
    table, behind = StreamTable(seen("a"), SCHEMA), StreamTable(seen("b"), SCHEMA)
    with patch.object(log, "_CHECKPOINT_INTERVAL", 3):
        for number in range(5):
            table.append(rows(range(number, number + 1)), number)
            table.checkpoint()
    assert as_storage(seen("a") / "streams" / "s").exists("_delta_log/_last_checkpoint")
    for number in range(4):
        as_storage(seen("a") / "streams" / "s").remove(
            f"_delta_log/{number:020d}.json"
        )  # as the library does after a day
    behind.refresh()
    again = StreamTable(seen("c"), SCHEMA)
    assert held(behind) == held(again) == list(range(5)) and again.append_count == 5
    wider = StreamSchema(
        "s", {**SCHEMA.columns, "host": "string"}, "ts", None, (), timedelta(0), timedelta(0)
    )
    other = StreamTable(seen("c"), wider)
    other.append(rows(range(5, 6)).append_column("host", pa.array(["h"])), 5)
    assert sorted(other.read(["host"])["host"].to_pylist(), key=repr) == [
        "h",
        None,
        None,
        None,
        None,
        None,
    ]


def test_who_commits_at_the_same_time_loses_nothing(seen: Callable[[str], StorageRoot]) -> None:
    """Several machines merge, replace and forget chunks while one appends; each row stands once."""
    StreamTable(seen("w"), SCHEMA)
    faults: list[BaseException] = []

    def run(what: Callable[[], None]) -> None:
        try:
            what()
        except BaseException as error:
            faults.append(error)

    def append() -> None:
        table = StreamTable(seen("w"), SCHEMA)
        for number in range(15):
            table.append(rows(range(number * 2, number * 2 + 2)), number)

    def cluster(name: str) -> None:
        table = StreamTable(seen(name), SCHEMA)
        for _ in range(8):
            with suppress(CommitConflict):
                table.cluster(0)

    threads = [threading.Thread(target=run, args=(append,))]
    threads += [
        threading.Thread(target=run, args=(lambda name=name: cluster(name),)) for name in "xy"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    table = StreamTable(seen("z"), SCHEMA)
    assert held(table) == list(range(30)) and table.append_count == 15


def test_of_two_with_the_same_number_one_is_refused(seen: Callable[[str], StorageRoot]) -> None:
    table, late = SequencedTable(seen("a"), EVENTS), SequencedTable(seen("b"), EVENTS)
    table.append(events(0, 4), 0, 4)
    with pytest.raises(CommitConflict):
        late.append(events(0, 6), 0, 6)
    late.append(events(4, 6), 4, 6)
    assert table.last_number() == 6 and sorted(map(int, table.read()["eid"].to_pylist())) == [
        1,
        2,
        3,
        4,
        5,
        6,
    ]
    fresh = SequencedTable(seen("c"), EVENTS)
    assert (
        fresh.read("rule", "version").num_rows == 6
        and fresh.read("another", "version").num_rows == 0
    )


def test_what_is_no_part_of_a_table_goes_after_a_while(seen: Callable[[str], StorageRoot]) -> None:
    table, sweeper = StreamTable(seen("a"), SCHEMA), Vacuum(10.0)
    table.append(rows(range(3)), 0)
    table._write_file(
        5, table._with_append_number(rows(range(9), 5), 9), False
    )  # a writer that died before it committed
    table.cluster(0)
    assert len(table.unreferenced_files()) == 2 and held(table) == [0, 1, 2]
    sweeper.run([table], 0.0)
    stay = max(10.0, table.storage.min_file_retention)
    sweeper.run([table], stay - 1.0)
    assert len(table.unreferenced_files()) == 2
    sweeper.run([table], stay)
    assert table.unreferenced_files() == [] and as_storage(table.storage).list_files() == [
        file.path for file in table.data_files()
    ]
    assert held(StreamTable(seen("b"), SCHEMA)) == [0, 1, 2]


def test_who_takes_too_long_to_commit_is_refused(bucket: str, tmp_path: Path) -> None:
    """Its files stay for as long as it may take, and twice."""
    table, sweeper, start = (
        StreamTable(stored(bucket, tmp_path), SCHEMA),
        Vacuum(10.0),
        clock.seconds_since_boot(),
    )
    write = table._write_file

    def slow(seconds: float, *values: Any) -> Any:
        file = write(*values)
        now.return_value = start + seconds
        for moment in (0.0, seconds):
            sweeper.run([table], moment)
        return file

    with (
        patch.object(archiver.delta.table, "seconds_since_boot", return_value=start) as now,
        patch.object(archiver.delta.log, "seconds_since_boot", now),
    ):
        with patch.object(table, "_write", partial(slow, table.storage.min_file_retention / 2 - 1)):
            table.append(rows(range(3)), 0)
        assert held(table) == [0, 1, 2]
        now.return_value, sweeper = start, Vacuum(10.0)
        with patch.object(table, "_write", partial(slow, table.storage.min_file_retention / 2 + 1)):
            for write_rows in (
                lambda: table.append(rows(range(3)), 1),
                lambda: table.replace_chunk(rows(range(9)), 0),
            ):
                now.return_value, before = start, table.version
                with pytest.raises(
                    StorageFailed, match=r"took 90 minutes to get there.* nothing is committed"
                ):
                    write_rows()
                assert held(table) == [0, 1, 2] and table.version == before


def test_damage_is_told(seen: Callable[[str], StorageRoot]) -> None:
    table = StreamTable(seen("a"), SCHEMA)
    with as_storage(table.storage).prepare_commit(b"") as commit:
        assert commit(f"_delta_log/{1:020d}.json")
    with pytest.raises(LogDamaged, match="it is empty"):
        table.refresh()


def test_missing_files_are_told(seen: Callable[[str], StorageRoot]) -> None:
    table = StreamTable(seen("a"), SCHEMA)
    table.append(rows(range(3)), 0)
    (file,) = table.data_files()
    as_storage(table.storage).remove(file.path)
    assert table.missing_files() == [file.path]
    with pytest.raises(FileNotFoundError):
        table.read(["n"])


def test_versions_of_derived_streams_are_made_used_and_removed(
    seen: Callable[[str], StorageRoot],
) -> None:
    root = seen("a")
    ts = pa.array([1, 2], pa.timestamp("us", tz="UTC"))
    one = pa.table({"ts": ts, "v": pa.array([1.0, 2.0])})
    for version in ("v1", "v2"):
        replace_chunk(open_or_create_table(root, "d", version, one.schema), one, 0)
    replace_chunk(open_or_create_table(root, "d", "v1", one.schema), one, 0)
    before = as_storage(root / "derived").folder_use_times()
    assert before.keys() == {"v1", "v2"}
    as_storage(version_root(root, "v1") / "streams" / "d").touch()
    after = as_storage(root / "derived").folder_use_times()
    assert after["v1"] >= before["v1"] and after["v2"] == before["v2"]
    as_storage(version_root(root, "v1")).remove_all()
    assert as_storage(root / "derived").folder_use_times().keys() == {"v2"}
    with pytest.raises(TableNotFoundError):
        as_storage(version_root(root, "v1") / "streams" / "d").open_table()


def test_the_cache_stays_within_its_limit_and_keeps_what_is_held(
    bucket: str, tmp_path: Path
) -> None:
    writer = StreamTable(stored(bucket, tmp_path / "w"), SCHEMA)
    for number in range(6):
        writer.append(rows(range(number * 1000, number * 1000 + 1000)), number)
    size = max(file.bytes for file in writer.data_files())
    home = tmp_path / "r"
    table = StreamTable(stored(bucket, home, limit=2 * size + size // 2), SCHEMA)
    held_paths = [Path(path) for path in table.lease_paths(table.data_files()[:3])]
    assert all(path.is_file() for path in held_paths)
    assert len(table.read(["n"])) == 6000
    copies = list((home / "cache").rglob("*.parquet"))
    assert all(path.is_file() for path in held_paths), (
        "what was handed out stays, however much it is"
    )
    assert len(copies) == 3, "of the rest nothing is left over the limit"
    for path in held_paths:
        os.utime(path, (1, path.stat().st_mtime))  # long ago
    FileCache(home / "cache", 2 * size + size // 2, 60.0).evict(size)
    assert len(list((home / "cache").rglob("*.parquet"))) == 1
    assert len(table.read(["n"])) == 6000, "what has gone comes again"
    assert not list((home / "cache").rglob(".*.part"))


def test_readers_and_removal_do_not_get_in_each_others_way(bucket: str, tmp_path: Path) -> None:
    """A path that was handed out is there, while others fill the same cache beyond its limit."""
    writer = StreamTable(stored(bucket, tmp_path / "w"), SCHEMA)
    for number in range(4):
        writer.append(rows(range(number * 10, number * 10 + 10)), number)
    faults: list[BaseException] = []

    def read(which: int) -> None:
        try:
            table = StreamTable(stored(bucket, tmp_path / "r", limit=1), SCHEMA)
            for turn in range(12):
                file = table.data_files()[(which + turn) % 4]
                if turn % 2:
                    assert table.read_file(file.path, ["n"]).num_rows == 10
                else:
                    assert pq.read_table(table.lease_paths([file])[0]).num_rows == 10
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=read, args=(which,)) for which in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults


def test_object_storage_is_checked_before_it_is_used(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(bucket, tmp_path).check()
    assert list(as_storage(stored(bucket, tmp_path)).folder_use_times()) == []
    put = obstore.put

    def heedless(*values: Any, mode: str = "overwrite", **named: Any) -> Any:
        return put(*values, mode="overwrite", **named)

    with (
        patch.object(obstore, "put", heedless),
        pytest.raises(StorageFailed, match="does not heed If-None-Match"),
    ):
        stored(bucket, tmp_path).check()
    with pytest.raises(
        StorageFailed, match="s3://no-such-bucket/a cannot be used: there is no such bucket"
    ):
        stored("s3://no-such-bucket/a", tmp_path).check()
    for ask in (StreamTable, lambda root, schema: StreamTable.exists(root, "s")):
        with pytest.raises(
            StorageFailed, match="s3://no-such-bucket/a cannot be used: there is no such bucket"
        ):
            ask(stored("s3://no-such-bucket/a", tmp_path), SCHEMA)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    for use in (S3Storage.check, lambda place: StreamTable(place, SCHEMA)):
        with pytest.raises(
            StorageFailed,
            match="cannot be used: access is refused; the keys are those of the environ",
        ):
            use(stored(bucket, tmp_path))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(
        StorageFailed, match=r"the archive s3://\S+ cannot be used: .*after 2 retries"
    ):
        stored(bucket, tmp_path).check()
    with pytest.raises(StorageFailed, match="cannot be used"):
        StreamTable(stored(bucket, tmp_path), SCHEMA)


def test_files_that_are_fetched_do_not_stay_open(bucket: str, tmp_path: Path) -> None:
    writer, reader = stored(bucket, tmp_path / "w"), stored(bucket, tmp_path / "r")
    names = [f"chunk=0/{number}.parquet" for number in range(5)]
    for name in names:
        with writer.write_data_file(name) as path:
            path.write_bytes(b"x")
    fetch, fetched = reader._fetch, []

    def remember(name: str, hold: bool) -> Any:
        fetched.append(fetch(name, hold))
        return fetched[-1]

    with patch.object(reader, "_fetch", remember):
        assert len(reader.lease_paths(names)) == len(fetched) == len(names)
    assert all(file.closed for file in fetched)


def test_large_files_go_in_parts(bucket: str, tmp_path: Path) -> None:
    content, name = os.urandom(12 << 20), "chunk=0/a.parquet"
    with (
        patch.object(archiver.storage.s3, "_MULTIPART_SIZE", 1 << 20),
        stored(bucket, tmp_path / "w").write_data_file(name) as path,
    ):
        path.write_bytes(content)
    other = stored(bucket, tmp_path / "r")
    assert (
        other.list_files() == [name] and Path(other.lease_paths([name])[0]).read_bytes() == content
    )


def test_a_commit_whose_answer_was_lost_is_known_again(bucket: str, tmp_path: Path) -> None:
    """The request is made again, and finds its own object."""
    place = stored(bucket, tmp_path)
    put = obstore.put

    def twice(*values: Any, **named: Any) -> Any:
        put(*values, **named)
        return put(*values, **named)

    with patch.object(obstore, "put", twice), place.prepare_commit(b"mine") as commit:
        assert commit("a")
    with place.prepare_commit(b"another") as commit:
        assert not commit("a") and commit("b")
    assert (place.read_log_file("a"), place.read_log_file("b")) == (b"mine", b"another")


@contextmanager
def answering(status: int, text: bytes) -> Iterator[str]:
    """The address of a store that answers this to all."""

    class Answer(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(text)

        do_GET = do_PUT = do_POST = do_HEAD = answer  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("status", "code", "told"),
    [
        (400, "ExpiredToken", "access is refused; the keys"),
        (400, "InvalidRequest", r"status code 400 \(InvalidRequest\)"),
        (404, "NoSuchKey", ""),
    ],
)
def test_nothing_secret_is_told(
    status: int, code: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = (
        f'<?xml version="1.0"?><Error><Code>{code}</Code><Token-0>s3cret-token</Token-0></Error>'
    )
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        monkeypatch.setenv(name, "s3cret")
    with answering(status, answer.encode()) as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://user:s3cret@{address}")
        place = stored("s3://b/p", tmp_path)

        def library() -> None:
            with place.translate_errors():
                raise DeltaError(
                    f"error at http://user:s3cret@{address}/b?X-Token=s3cret: 500 <a>s3cret</a>"
                )

        tellings = []
        for ask in (
            place.check,
            lambda: place.read_log_file("a"),
            place.open_table,
            place.remove_all,
            library,
        ):
            with pytest.raises((StorageFailed, OSError, TableNotFoundError)) as caught:
                ask()
            tellings.append("".join(traceback.format_exception(caught.value)))
    assert not [text for text in tellings if "s3cret" in text], tellings
    assert any(address in text for text in tellings)
    assert status == 404 or re.search(told, tellings[0])
