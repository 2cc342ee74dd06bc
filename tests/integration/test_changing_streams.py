"""Streams come, go and get new names; each file is read once, whatever happens meanwhile."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from structlog.testing import capture_logs

import sql
from archiver.file_names import escape_name
from archiver.ingest import ArchiveWriter
from archiver.read import Reader
from moirae.config import Settings, load_settings_from_environment
from moirae.errors import ProblemsError
from moirae.inspect.doctor import run_checks
from moirae.live.sources.settling import SourceSettling
from moirae.live.stream_renames import rename_streams
from moirae.queries.prepare import QueryOptions, prepare_query
from moirae.runtime import connect_database
from moirae.runtime.storage import (
    archived_streams,
    open_storage,
    with_removed_streams,
)
from moirae.runtime.storage.landing_folder import LandingFolder
from sql.archive import StreamRename, StreamRenameGateway, UnitGateway
from sql.loader import load, read_text
from tests.source_readers import archive_present_files, make_source_readers, update_until
from tests.workspaces import workspace, write_workspace

STREAM = """
  {name}:{was}
    columns: {{ts: timestamp, n: int}}
    time: ts
    id: [n]
    source: {source}
"""

pytestmark = pytest.mark.services


class World:
    """A workspace whose streams change."""

    def __init__(self, root: Path, spark: SparkSession) -> None:
        self.root = root
        self.spark = spark
        self.first_settings = load_settings_from_environment(root / "moirae.yaml")
        self.checkpoint = root / ".moirae" / "checkpoints" / "live"

    def declare(self, **sources: str) -> Settings:
        """Streams by name; a source may begin with `was: OLD, `."""
        streams = []
        for name, source in sources.items():
            *was, source = source.rsplit(", ", 1) if source.startswith("was") else [source]
            streams.append(
                STREAM.format(name=name, source=source, was="".join(f"\n    {key}" for key in was))
            )
        write_workspace(self.root, "home: .moirae\nstreams:" + "".join(streams))
        return load_settings_from_environment(self.root / "moirae.yaml")

    def connect(self) -> sql.Connection:
        return connect_database(self.first_settings, "tests")

    def put(self, name: str | bytes, number: int = 0) -> None:
        path = self.root / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'{{"ts": "2026-01-01T00:00:00Z", "n": {number}}}\n')
        os.utime(path, (1_767_225_600 + number, 1_767_225_600 + number))

    def drain(self, settings: Settings) -> list[str]:
        with connect_database(settings, "tests") as connection:
            rename_streams(settings, connection, open_storage(settings))
            return archive_present_files(settings, connection, self.spark)

    def query(self, settings: Settings, stream: str) -> list[int]:
        """What an ad-hoc query of history reads."""
        with connect_database(settings, "tests") as connection:
            history = with_removed_streams(settings, connection)
            options = QueryOptions(limit=10)
            text = f"SELECT n FROM {stream}"
            question = prepare_query(text, history, (), options, lambda: self.spark)
            assert question.streams == {stream: "ts"}
            reader = Reader(open_storage(settings), archived_streams(settings, connection))
            snapshot = reader.snapshot(stream)
            assert snapshot.table is not None
            files = [snapshot.table.files.read(file.path, ["n"]) for file in snapshot.files]
        return sorted(number for rows in files for number in rows["n"].to_pylist())

    def check(self, settings: Settings) -> None:
        """Ledger and archive agree."""
        with connect_database(settings, "tests") as connection:
            problems = [finding for finding in run_checks(settings, connection) if finding.problems]
        assert problems == []

    def read_counts(self, settings: Settings) -> tuple[int, int]:
        """Units and archived rows."""
        with connect_database(settings, "tests") as connection:
            row = connection.execute("SELECT count(*), sum(archived)::int FROM units").fetchone()
        assert row is not None
        return row


@pytest.fixture(scope="module")
def module_world(spark: SparkSession) -> Iterator[World]:
    with workspace("home: .moirae\nstreams: {}\n", "groups: []\n") as root:
        world = World(root, spark)
        with world.connect():  # the database stays while the module runs
            yield world


@pytest.fixture
def world(module_world: World) -> World:
    """With an empty ledger."""
    with module_world.connect() as connection:
        connection.execute("TRUNCATE units, streams, dead_letters, partitions")
        connection.commit()
    for name in ("landing", ".moirae/archive", ".moirae/checkpoints"):
        shutil.rmtree(module_world.root / name, ignore_errors=True)
    return module_world


def test_streams_come_and_go_and_each_file_is_read_once(world: World) -> None:
    for number, name in enumerate(("a", "b", "c")):
        world.put(f"landing/{name}/{number}.jsonl", number)
    settings = world.declare(a="{files: landing/a/*.jsonl}", b="{files: landing/b/*.jsonl}")
    assert world.drain(settings) == ["landing/a/0.jsonl", "landing/b/1.jsonl"]
    settings = world.declare(
        a="{files: landing/a/*.jsonl}", b="{http: true}", c="{files: landing/c/*.jsonl}"
    )
    assert world.drain(settings) == ["landing/c/2.jsonl"]
    world.put("landing/b/3.jsonl", 3)
    world.put("landing/a/4.json", 4)
    settings = world.declare(b="{files: 'landing/b/*.jsonl'}")
    assert world.drain(settings) == ["landing/b/3.jsonl"]
    settings = world.declare(a="{files: './landing/{a,x}/*.js*', format: jsonl}")
    assert world.drain(settings) == ["landing/a/4.json"]
    assert world.drain(world.declare(a="{http: true}")) == []


def _empty_offsets(checkpoint: Path) -> None:
    for path in (checkpoint / "offsets").iterdir():
        path.write_text("")


def _write_garbage(checkpoint: Path) -> None:
    for path in checkpoint.rglob("*"):
        if path.is_file():
            path.write_bytes(b"\xff\x00garbage\n" * 9)


def _write_old_format(checkpoint: Path) -> None:
    """As releases did whose queries had a source of Spark for each stream."""
    (checkpoint / "sources" / "0").mkdir(parents=True)
    (checkpoint / "sources" / "0" / "0").write_text("v1\n{}")
    for path in (checkpoint / "offsets").iterdir():
        path.write_text('v1\n{"batchTimestampMs":1}\n{"logOffset":0}\n{"logOffset":4}')


def _replace_by_file(checkpoint: Path) -> None:
    shutil.rmtree(checkpoint)
    checkpoint.write_text("")


DAMAGES: list[tuple[Callable[[Path], object], bool]] = [
    (shutil.rmtree, False),
    (_empty_offsets, True),
    (_write_garbage, True),
    (_write_old_format, True),
    (_replace_by_file, True),
    (lambda checkpoint: (checkpoint / "metadata").write_text("{"), True),
    (lambda checkpoint: shutil.rmtree(checkpoint / "offsets"), True),
    (lambda checkpoint: shutil.rmtree(checkpoint / "commits"), False),
]


@pytest.mark.parametrize(("damage", "is_set_aside"), DAMAGES)
def test_damaged_checkpoint_is_set_aside_and_no_file_is_read_twice(
    world: World, damage: Callable[[Path], object], is_set_aside: bool
) -> None:
    settings = world.declare(a="{files: landing/a/*.jsonl}")
    world.put("landing/a/0.jsonl", 0)
    assert world.drain(settings) == ["landing/a/0.jsonl"]
    damage(world.checkpoint)
    world.put("landing/a/1.jsonl", 1)
    with capture_logs() as logs:
        assert world.drain(settings) == ["landing/a/1.jsonl"]
    actions = [entry["action"] for entry in logs if entry.get("action")]
    assert actions == ["checkpoint_set_aside"] * is_set_aside
    assert len(list(world.checkpoint.parent.glob("live.set-aside-*"))) == is_set_aside
    world.put("landing/a/2.jsonl", 2)
    assert world.drain(settings) == ["landing/a/2.jsonl"]
    assert world.read_counts(settings) == (3, 3)


def test_checkpoint_that_is_deleted_while_the_query_runs_is_replaced(world: World) -> None:
    settings = world.declare(a="{files: landing/a/*.jsonl}")
    names: list[str] = []
    with world.connect() as connection:
        readers = make_source_readers(settings, connection, world.spark, names.extend)
        readers.start()
        for number in range(3):
            world.put(f"landing/a/{number}.jsonl", number)
            update_until(readers, lambda: len(names) == number + 1)  # noqa: B023
            shutil.rmtree(world.checkpoint)
        readers.stop()
    assert names == [f"landing/a/{number}.jsonl" for number in range(3)]


def test_few_checkpoints_that_were_set_aside_stay(world: World) -> None:
    settings = world.declare(a="{files: landing/a/*.jsonl}")
    for number in range(5):
        world.put(f"landing/a/{number}.jsonl", number)
        world.drain(settings)
        _empty_offsets(world.checkpoint)
    assert len(list(world.checkpoint.parent.glob("live.set-aside-*"))) == 3


def test_any_file_name_is_read_and_found_in_the_ledger(world: World) -> None:
    settings = world.declare(a="{files: landing/a/*.jsonl}", ok="{files: landing/ok/*.jsonl}")
    names = [b"l\xe9.jsonl", b"a\nb.jsonl", b"back\\s.jsonl", b"_under.jsonl", b"\xff" * 249]
    names[-1] += b".jsonl"
    for number, name in enumerate(names):
        world.put(b"landing/a/" + name, number)
    world.put("landing/a/.hidden.jsonl", 99)
    world.put("landing/ok/1.jsonl", 1)
    drained = world.drain(settings)
    assert len(drained) == 6
    assert {"landing/a/l\\xe9.jsonl", "landing/a/_under.jsonl"} < set(drained)
    assert world.drain(settings) == []
    assert world.read_counts(settings) == (6, 6)


def test_backlog_of_one_stream_does_not_hold_back_another(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moirae.live.sources.file_input.MAX_BATCH_BYTES", 1)
    for number in range(3):
        world.put(f"landing/a/{number}.jsonl", number)
    world.put("landing/b/9.jsonl", 9)
    settings = world.declare(a="{files: landing/a/*.jsonl}", b="{files: landing/b/*.jsonl}")
    batches: list[list[str]] = []
    with world.connect() as connection:
        readers = make_source_readers(settings, connection, world.spark, batches.append, drain=True)
        readers.start()
        update_until(readers, lambda: not readers.is_active())
        readers.stop()
    assert batches == [
        ["landing/a/0.jsonl", "landing/b/9.jsonl"],
        ["landing/a/1.jsonl"],
        ["landing/a/2.jsonl"],
    ]


def test_file_that_is_removed_before_it_is_read_is_logged(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moirae.live.sources.file_input.MAX_BATCH_BYTES", 1)
    for number in range(3):
        world.put(f"landing/a/{number}.jsonl", number)
    removed = world.root / "landing/a/1.jsonl"
    settings = world.declare(a="{files: landing/a/*.jsonl}")
    with world.connect() as connection, capture_logs() as logs:
        readers = make_source_readers(
            settings, connection, world.spark, lambda _: removed.unlink(missing_ok=True), drain=True
        )
        readers.start()
        update_until(readers, lambda: not readers.is_active())
        readers.stop()
    names = [log["name"] for log in logs if log.get("action") == "file_removed_unread"]
    assert names == ["landing/a/1.jsonl"]
    assert world.read_counts(settings) == (2, 2)


A = "{files: landing/a/*.jsonl}"
OTHER = "{files: landing/other/*.jsonl}"


@pytest.mark.parametrize("after", ["delete", "move:old"])
def test_archived_files_leave_the_folder_also_after_a_crash(
    world: World, monkeypatch: pytest.MonkeyPatch, after: str
) -> None:
    settings = world.declare(a=f"{{files: a/*.jsonl, after: '{after}'}}")
    world.put("a/1.jsonl", 1)
    with monkeypatch.context() as crash:
        # The process is killed after the commit.
        crash.setattr(SourceSettling, "settle", lambda *_: None)
        world.drain(settings)
    assert os.listdir(world.root / "a") == ["1.jsonl"]
    world.put("a/2.jsonl", 2)
    world.drain(settings)
    assert os.listdir(world.root / "a") == []
    assert world.query(settings, "a") == [1, 2]
    moved = ["1.jsonl", "2.jsonl"] if after == "move:old" else []
    folder = world.root / "old"
    assert (sorted(os.listdir(folder)) if folder.exists() else []) == moved
    # An emptied folder stops nothing.
    world.put("a/3.jsonl", 3)
    world.drain(settings)
    assert world.query(settings, "a") == [1, 2, 3]


def test_history_of_a_removed_stream_stays_and_goes_on(world: World) -> None:
    world.put("landing/a/0.jsonl", 0)
    settings = world.declare(a=A, other=OTHER)
    assert world.drain(settings) == ["landing/a/0.jsonl"]
    world.put("landing/a/1.jsonl", 1)
    settings = world.declare(other=OTHER)
    assert world.drain(settings) == []
    assert world.query(settings, "a") == [0]
    assert world.read_counts(settings) == (1, 1)
    world.check(settings)
    settings = world.declare(a=A, other=OTHER)
    assert world.drain(settings) == ["landing/a/1.jsonl"]
    assert world.query(settings, "a") == [0, 1]
    world.check(settings)


def test_renamed_stream_goes_on_under_its_new_name(world: World) -> None:
    world.put("landing/a/0.jsonl", 0)
    settings = world.declare(a=A)
    world.drain(settings)
    with LandingFolder(Path(settings.home), "a").open_batch("posted", ".jsonl") as file:
        file.write(b"{}")
    world.put("landing/a/1.jsonl", 1)
    settings = world.declare(b=f"was: a, {A}")
    for _ in range(2):
        world.drain(settings)
        assert world.query(settings, "b") == [0, 1]
        assert world.read_counts(settings) == (2, 2)
        world.check(settings)
    assert not (world.root / ".moirae/archive/streams/a").exists()
    assert LandingFolder(Path(settings.home), "b").pending_batches()
    world.put("landing/a/2.jsonl", 2)
    assert world.drain(world.declare(b=A)) == ["landing/a/2.jsonl"], "without `was` from then on"


@pytest.mark.parametrize("is_moved", [False, True])
def test_interrupted_rename_goes_on(world: World, is_moved: bool) -> None:
    world.put("landing/a/0.jsonl", 0)
    settings = world.declare(a=A)
    world.drain(settings)
    streams = world.root / ".moirae/archive/streams"
    with world.connect() as connection:
        StreamRenameGateway(connection).start(StreamRename("a", "b"))
    if is_moved:
        (streams / "a").rename(streams / "b")
    else:
        (streams / "b" / "_delta_log").mkdir(parents=True)
    settings = world.declare(b=f"was: a, {A}")
    assert world.drain(settings) == []
    assert world.query(settings, "b") == [0]
    world.check(settings)


def test_rename_to_a_stream_with_history_is_refused(world: World) -> None:
    world.put("landing/a/0.jsonl", 0)
    world.put("landing/other/0.jsonl", 0)
    world.drain(world.declare(a=A, other=OTHER))
    settings = world.declare(other=f"was: a, {OTHER}")
    with pytest.raises(ProblemsError, match=r"moirae.yaml:4:10: streams.other.was: 'a' cannot be"):
        world.drain(settings)
    world.drain(world.declare(a=A, other=OTHER))


def test_rename_of_a_declared_stream_is_refused(world: World) -> None:
    with pytest.raises(ProblemsError, match=r"streams\.b\.was: the stream 'a' is still declared"):
        world.declare(a=A, b=f"was: a, {OTHER}")


def test_all_rows_of_a_stream_get_its_new_name(world: World) -> None:
    """A table that names streams must be renamed with them, or be listed here."""
    not_renamed = {"derived_chunks", "row_revisions"}  # of derived streams and recalls
    statement = (
        "SELECT table_name FROM information_schema.columns"
        " WHERE table_schema = 'public' AND column_name = 'stream'"
    )
    with world.connect() as connection:
        tables = {row[0] for row in connection.execute(statement)}
    statements = load("stream_renames")
    renamed = {name.removeprefix("rename_") for name in statements if name.startswith("rename_")}
    assert tables - not_renamed == renamed - {"stream", "set_aside_streams", "in_erasures"}


def test_names_of_earlier_versions_are_escaped_by_the_migration(world: World) -> None:
    names = ["a\\xe9.jsonl", "a\nb\u202e.jsonl", "a\\b.jsonl", "é.jsonl"]
    migration = read_text("migrations", "0011_renamed_streams.sql").split("\n\n", 1)[1]
    with world.connect() as connection:
        for name in names:
            connection.execute("INSERT INTO units (stream, unit) VALUES ('a', %s)", (name,))
        connection.execute(migration.encode())
        rows = connection.execute("SELECT unit FROM units ORDER BY id").fetchall()
    assert [row[0] for row in rows] == list(map(escape_name, names))


LOGS = """
  a:
    columns: {ts: timestamp, n: int}
    time: ts
    source: {files: 'logs/a.log*', format: logfmt}
"""


@pytest.fixture
def log_folder(world: World) -> Iterator[Path]:
    write_workspace(world.root, "home: .moirae\nstreams:" + LOGS)
    folder = world.root / "logs"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


def _write_log(path: Path, number: int) -> None:
    path.write_text(f"ts=2026-01-01T00:00:0{number}Z n={number}\n" * 2)


def test_renamed_log_files_bring_no_row_twice(
    world: World, log_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = load_settings_from_environment(world.root / "moirae.yaml")
    log = log_folder / "a.log"
    _write_log(log, 0)
    world.drain(settings)
    with log.open("a") as file:  # before it is renamed
        file.write("ts=2026-01-01T00:00:00Z n=10\n")
    log.rename(log_folder / "a.log.1")
    _write_log(log, 1)
    with monkeypatch.context() as crash:
        # The process is killed after the rows are archived, before the ledger says so.
        crash.setattr(ArchiveWriter, "_finish_units", _fail)
        world.drain(settings)
    for number in (1, 0):  # as logrotate does
        (log_folder / f"a.log.{number}".removesuffix(".0")).rename(
            log_folder / f"a.log.{number + 1}"
        )
    _write_log(log, 2)
    with capture_logs() as logs:
        world.drain(settings)
    names = [entry["read_as"] for entry in logs if entry.get("action") == "file_renamed"]
    assert names == ["logs/a.log"]
    assert world.query(settings, "a") == [0, 0, 1, 1, 2, 2, 10]
    world.check(settings)
    with world.connect() as connection:
        counts = {row.stream: row.renamed for row in UnitGateway(connection).sum_by_stream()}
    assert counts["a"] == 2


def _fail(*_: object) -> None:
    raise OSError("killed")


def test_equal_files_of_other_names_are_other_rows(world: World, log_folder: Path) -> None:
    settings = load_settings_from_environment(world.root / "moirae.yaml")
    _write_log(log_folder / "a.log", 0)
    world.drain(settings)
    shutil.copy2(log_folder / "a.log", log_folder / "a.log.2")  # with its modification time
    world.drain(settings)
    assert world.query(settings, "a") == [0, 0, 0, 0]
