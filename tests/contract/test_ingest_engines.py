"""Every engine archives the same rows, refuses the same lines and cuts the same chunks."""

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial, reduce
from itertools import cycle
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from psycopg import Connection
from pyspark.sql import DataFrame, SparkSession

from archiver.delta import StreamTable, Vacuum
from archiver.executors import (
    ExecutorIngest,
    SparkJobs,
    batch_plan,
    grouping,
    pieces,
    task_planner,
)
from archiver.executors.tasks import decode, write
from archiver.ingest import source_units
from archiver.ingest.engines import EngineMode, local_ingest
from archiver.ingest.source_units import SourceUnit
from archiver.ingest.writer import ArchiveWriter
from archiver.storage import FileCache, ObjectPath, S3Storage, StorageRoot
from moirae.config.settings import Settings, load_settings_from_environment
from moirae.live.sources import files
from moirae.runtime import database
from tests.ingest_scenario import (
    Sizes,
    assert_equal,
    ingest,
    ingest_topic,
    make_records,
    open_writer,
    outcome,
    split_by_partition,
    write_batches,
    write_large_file,
)
from tests.inline_jobs import InlineJobs
from tests.killing_jobs import KillingJobs
from tests.store import put_object
from tests.workspaces import workspace

SMALL_SLICE = 40  # records
CHUNK_ROWS = 150


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    """A workspace with a running database."""
    with workspace("home: .moirae\nstreams: {}\n", "groups: []\n") as folder:
        yield folder


@pytest.fixture
def settings(root: Path) -> Settings:
    return load_settings_from_environment(root / "moirae.yaml")


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices, groups, pieces and buckets of few rows, so that a batch has many of each."""
    for module in (decode, grouping, pieces, write, local_ingest, source_units):
        monkeypatch.setattr(module, "BATCH_RECORDS", SMALL_SLICE)
    for module in (pieces, task_planner):
        monkeypatch.setattr(module, "PIECE_RECORDS", 10)
    monkeypatch.setattr(pieces, "MIN_DIVIDED_BYTES", 400)
    monkeypatch.setattr(pieces, "_MIN_RANGE_BYTES", 100)
    monkeypatch.setattr(batch_plan, "_MIN_BUCKET_ROWS", 10)
    assert task_planner.is_divisible is pieces.is_divisible


@pytest.fixture(scope="module")
def jobs(spark: SparkSession, _store: Mapping[str, str]) -> Iterator[SparkJobs]:
    """Executors of two cores, with their workers, whose environment has the keys of the bucket."""
    with patch.dict(spark.sparkContext.environment, _store):
        spark_jobs = SparkJobs(spark.sparkContext)
        spark_jobs.warm_up()
        deadline = time.monotonic() + 120
        while not spark_jobs.is_warm:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield spark_jobs


Run = Callable[[ArchiveWriter, Connection[Any]], None]


def run_scenario(
    settings: Settings, folder: StorageRoot, mode: EngineMode, jobs: Any, run: Run
) -> dict[str, Any]:
    """What a new archive and database hold after a run."""
    with database.connect_database(settings, "tests") as connection:
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    with database.connect_database(settings, "tests") as connection:
        writer = open_writer(folder, connection, mode, CHUNK_ROWS)
        set_jobs(writer, jobs)
        run(writer, connection)
        return outcome(writer, connection)


def set_jobs(writer: ArchiveWriter, jobs: Any) -> None:
    """Give the archive executors."""
    writer.engines.executors = ExecutorIngest(jobs, writer.engines.sizes)


def _slow(*cases: Any) -> list[Any]:
    """Further cases of a test, for `make slow`."""
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
        for case in cases
    ]


def ingest_all(batches: Sequence[Sequence[SourceUnit]]) -> Run:
    return lambda writer, _: ingest(writer, batches)


@pytest.mark.parametrize("seed", [0, *_slow(*range(1, 8))])
@pytest.mark.usefixtures("small_slices")
def test_hostile_batches_are_archived_alike(settings: Settings, tmp_path: Path, seed: int) -> None:
    batches = write_batches(tmp_path / "landing", seed, Sizes(batches=4, files=5, rows=120))
    run = ingest_all(batches)
    jobs = InlineJobs(cores=1 + seed % 3)
    expected = run_scenario(settings, tmp_path / "local", "local", jobs, run)
    modes: list[EngineMode] = ["spark", "auto"]
    for mode in modes:
        assert_equal(run_scenario(settings, tmp_path / mode, mode, jobs, run), expected)
    assert len(expected["chunks"]) > 2
    assert any(row["_late"] for rows in expected["archive"].values() for row in rows)


@pytest.mark.parametrize("seed", [0, *_slow(1, 2, 3)])
@pytest.mark.usefixtures("small_slices")
def test_records_of_a_topic_are_archived_alike(
    settings: Settings, tmp_path: Path, seed: int
) -> None:
    tables = make_records(seed, batches=5, rows=200)

    def run(writer: ArchiveWriter, _: Connection[Any]) -> None:
        ingest_topic(writer, tables, split_by_partition)

    jobs = InlineJobs()
    expected = run_scenario(settings, tmp_path / "local", "local", jobs, run)
    assert_equal(run_scenario(settings, tmp_path / "spark", "spark", jobs, run), expected)
    assert any(row["_late"] for row in expected["archive"]["a"])
    assert {letter[2] for letter in expected["dead letters"]} >= {"conflict", "malformed"}


class Killed(Exception):
    """Raised where the process is killed."""


def ingest_with_kills(
    batches: Sequence[Sequence[SourceUnit]],
    jobs: Any,
    engines: Sequence[EngineMode],
    commits_before_kill: int | None,
) -> Run:
    """Each batch is begun by one engine and ended by the next, in a new process.

    `commits_before_kill`: commits of the first engine; None: all of them, but not the ledger's.
    """

    def run(writer: ArchiveWriter, connection: Connection[Any]) -> None:
        numbers = cycle(engines)
        root = next(iter(writer.tables.values())).storage.data_folder.parents[1]
        for units in batches:
            first = reopen(root, connection, next(numbers))
            with _kill_after_commits(first, commits_before_kill), suppress(Killed):
                ingest(first, [units])
            ingest(reopen(root, connection, next(numbers)), [units])
        for stream, table in writer.tables.items():
            table.refresh()
            writer.progress[stream] = writer.catalog.stream_progress()[stream]
        last = reopen(root, connection, "local")
        writer._cutter = last._cutter

    def reopen(root: Path, connection: Connection[Any], mode: EngineMode) -> ArchiveWriter:
        opened = open_writer(root, connection, mode, CHUNK_ROWS)
        set_jobs(opened, jobs)
        return opened

    return run


@contextmanager
def _kill_after_commits(writer: ArchiveWriter, commits: int | None) -> Iterator[None]:
    """Raise `Killed` instead of the next commit, or of the transaction of the ledger."""
    count = itertools.count()

    def fail_at_limit(commit: Callable[..., None], *values: Any, **options: Any) -> None:
        if commits is not None and next(count) == commits:
            raise Killed
        commit(*values, **options)

    def fail(*_: Any) -> None:
        raise Killed

    with ExitStack() as stack:
        for table in writer.tables.values():
            commit = partial(fail_at_limit, table.commit_append)
            stack.enter_context(patch.object(table, "commit_append", commit))
        stack.enter_context(patch.object(writer, "_finish_units", fail))
        yield


@pytest.mark.parametrize(
    ("first", "second", "commits"),
    [
        ("local", "spark", None),
        *_slow(
            ("spark", "local", None),
            ("local", "spark", 1),
            ("spark", "local", 1),
            ("spark", "spark", 1),
        ),
    ],
)
@pytest.mark.usefixtures("small_slices")
def test_batch_killed_before_the_ledger_is_ended_by_the_other_engine(
    settings: Settings,
    tmp_path: Path,
    first: EngineMode,
    second: EngineMode,
    commits: int | None,
) -> None:
    batches = write_batches(tmp_path / "landing", 23, Sizes(batches=3, files=4, rows=100))
    jobs = InlineJobs()
    expected = run_scenario(settings, tmp_path / "once", "local", jobs, ingest_all(batches))
    run = ingest_with_kills(batches, jobs, (first, second), commits)
    actual = run_scenario(settings, tmp_path / "killed", "local", jobs, run)
    assert_equal(actual, expected)


def sweep(table: StreamTable, seconds: float) -> None:
    """Vacuum a table as another thread of its process does, now and so many seconds later."""
    opened = StreamTable(table.storage.data_folder.parents[1], table.schema)
    vacuum = Vacuum(file_retention=1.0)
    for now in (0.0, seconds):
        vacuum.run([opened], now)


@pytest.mark.slow
@pytest.mark.usefixtures("small_slices")
def test_files_of_a_driver_killed_before_its_commit_are_removed_later(
    settings: Settings, tmp_path: Path
) -> None:
    batches = write_batches(tmp_path / "landing", 23, Sizes(batches=3, files=4, rows=100))
    jobs = InlineJobs()
    expected = run_scenario(settings, tmp_path / "once", "local", jobs, ingest_all(batches))
    ingest_killed = ingest_with_kills(batches, jobs, ("spark", "spark"), commits_before_kill=0)

    def run(writer: ArchiveWriter, connection: Connection[Any]) -> None:
        ingest_killed(writer, connection)
        for table in writer.tables.values():
            committed = {file.path for file in table.data_files()}
            stored = set(table.storage.list_files())
            assert stored > committed
            sweep(table, 0.9)
            assert set(table.storage.list_files()) == stored
            sweep(table, 1.0)
            assert set(table.storage.list_files()) == committed

    assert_equal(run_scenario(settings, tmp_path / "killed", "local", jobs, run), expected)


@pytest.mark.slow
@pytest.mark.usefixtures("small_slices")
def test_files_of_a_slow_batch_are_not_removed(settings: Settings, tmp_path: Path) -> None:
    """Its tasks write for five seconds, and files stay for one second."""
    batches = write_batches(tmp_path / "landing", 23, Sizes(batches=3, files=4, rows=100))
    jobs = InlineJobs()
    expected = run_scenario(settings, tmp_path / "once", "local", jobs, ingest_all(batches))
    swept: list[str] = []

    def sweep_before(table: StreamTable, commit: Callable[..., None], *values: Any) -> None:
        sweep(table, 5.0)
        swept.append(table.schema.name)
        commit(*values)

    def run(writer: ArchiveWriter, _: Connection[Any]) -> None:
        for table in writer.tables.values():
            commit = partial(sweep_before, table, table.commit_append)
            setattr(table, "commit_append", commit)  # noqa: B010
        ingest(writer, batches)

    assert_equal(run_scenario(settings, tmp_path / "swept", "spark", jobs, run), expected)
    assert len(swept) > 3


@pytest.mark.slow
@pytest.mark.services
def test_executors_archive_ten_thousand_hostile_rows_like_this_process(
    settings: Settings, tmp_path: Path, jobs: SparkJobs
) -> None:
    batches = write_batches(tmp_path / "landing", 11, Sizes(batches=6, files=6, rows=1_200))
    run = ingest_all(batches)
    with patch(f"{__name__}.CHUNK_ROWS", 2_000):
        expected = run_scenario(settings, tmp_path / "local", "local", jobs, run)
        modes: list[EngineMode] = ["spark", "auto"]
        for mode in modes:
            assert_equal(run_scenario(settings, tmp_path / mode, mode, jobs, run), expected)
    assert sum(unit[2] for unit in expected["counters"]) >= 10_000
    reasons = {letter[2] for letter in expected["dead letters"]}
    assert reasons >= {"conflict", "malformed", "quarantined"}
    assert len(expected["chunks"]) > 2


@pytest.mark.slow
@pytest.mark.services
def test_executors_archive_large_files_and_a_topic_like_this_process(
    settings: Settings, tmp_path: Path, jobs: SparkJobs
) -> None:
    batches = [[write_large_file(tmp_path / "large.jsonl", rows=230_000)]]
    batches.append([write_large_file(tmp_path / "again.csv", rows=120_000)])
    tables = make_records(1, batches=2, rows=400)
    spark = SparkSession.getActiveSession()
    assert spark is not None

    def make_frame(table: pa.Table) -> DataFrame:
        frame = spark.createDataFrame(table)
        parts = [frame.where(f"partition = {number}").coalesce(1) for number in (2, 0, 1)]
        return reduce(DataFrame.unionAll, parts)

    def run(writer: ArchiveWriter, _: Connection[Any]) -> None:
        ingest(writer, batches)
        ingest_topic(writer, tables, make_frame)

    tasks_before = jobs.task_count
    with patch(f"{__name__}.CHUNK_ROWS", 50_000):
        expected = run_scenario(settings, tmp_path / "local", "local", jobs, run)
        actual = run_scenario(settings, tmp_path / "spark", "spark", jobs, run)
    assert_equal(actual, expected)
    assert jobs.task_count > tasks_before + 20


@pytest.mark.slow
@pytest.mark.services
def test_executors_write_to_object_storage_like_this_process(
    settings: Settings, tmp_path: Path, jobs: SparkJobs, bucket: str
) -> None:
    batches = write_batches(tmp_path / "landing", 5, Sizes(batches=3, files=4, rows=200))
    run = ingest_all(batches)
    expected = run_scenario(settings, tmp_path / "local", "local", jobs, run)
    storage = S3Storage(bucket, FileCache(tmp_path / "cache", 1 << 30, 60.0), tmp_path / "archive")
    assert_equal(run_scenario(settings, storage, "spark", jobs, run), expected)


@pytest.mark.usefixtures("small_slices")
def test_files_in_object_storage_are_archived_like_files_of_a_folder(
    settings: Settings, tmp_path: Path, bucket: str
) -> None:
    """Also the parts of divided files, whose conflicting lines are read again."""
    batches = write_batches(tmp_path / "landing", 7, Sizes(batches=2, files=5, rows=120))
    jobs = InlineJobs()
    expected = run_scenario(settings, tmp_path / "folder", "local", jobs, ingest_all(batches))
    objects = [[_as_object(unit, bucket) for unit in units] for units in batches]
    modes: list[EngineMode] = ["local", "spark"]
    for mode in modes:
        actual = run_scenario(settings, tmp_path / mode, mode, jobs, ingest_all(objects))
        assert_equal(actual, expected)


def _as_object(unit: SourceUnit, bucket: str) -> SourceUnit:
    """The same unit in object storage; a file that is missing is missing there, too."""
    assert isinstance(unit.path, Path)
    path = ObjectPath(f"{bucket}/{unit.stream}/{unit.path.name}")
    if unit.path.exists():
        put_object(path.url, unit.path.read_bytes())
    return files.make_unit(unit.stream, unit.name, unit.format, path, unit.size or 0)


@pytest.mark.slow
@pytest.mark.services
def test_batch_continues_after_a_worker_is_killed(
    settings: Settings, tmp_path: Path, jobs: SparkJobs
) -> None:
    batches = write_batches(tmp_path / "landing", 29, Sizes(batches=3, files=4, rows=200))
    run = ingest_all(batches)
    expected = run_scenario(settings, tmp_path / "local", "local", jobs, run)
    killed = tmp_path / "killed"
    killing = KillingJobs(jobs, killed)
    actual = run_scenario(settings, tmp_path / "spark", "spark", killing, run)
    assert killed.exists()
    assert_equal(actual, expected)
