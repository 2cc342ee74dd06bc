"""Derived streams in the archive: all rows, once, also after crashes; recalls over them give the
same answers.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest
from psycopg import Connection
from pyspark.sql import SparkSession

from archiver.delta import StreamTable
from archiver.delta.derived_tables import open_table, version_root
from archiver.read.reader import Reader
from archiver.time_range import TimeRange
from moirae.config.settings import Settings
from moirae.config.table_schemas import stream_schema
from moirae.deployments.registry import RuleRegistry
from moirae.history import derived_streams
from moirae.history.builder import HistoryBuilder, _lock_name
from moirae.history.derived_streams import DerivedStreamBuilder, DerivedStreamTask
from moirae.history.finder import RelationVersions
from moirae.history.lock import try_lock
from moirae.live.relations import Relations
from moirae.rules.definition import build_rule_tables
from moirae.rules.requests import build_questions
from moirae.runtime import database
from recall.engines.derived_streams import DerivedStreamReader, compute_derived_version
from recall.engines.duckdb.engine import LocalEngine
from recall.engines.spark.engine import SparkEngine
from recall.engines.template import Template
from recall.requests import Piece, RecallEvent, SqlQuestion
from sql.archive import DerivedChunkGateway
from tests.property.world import LOAD, Plan, World, definitions, workspace

pytestmark = pytest.mark.services

RULES = """
groups:
- name: g
  derived:
  - stream: load
    expr: SELECT host, window.end AS ts, avg(v) AS v FROM a GROUP BY host, window(ts, '1 minute')
  - stream: kept
    archive: true
    expr: SELECT host, at AS ts, w FROM b WHERE w > 3
  - stream: other
    expr: SELECT host, at AS ts FROM b
  rules:
  - alert: Asks
    expr: SELECT host, ts, v FROM a WHERE v > 90
    recall:
      norm: {sql: "SELECT count(*) AS n, max(l.v) AS top FROM load l WHERE l.host = event.host"}
"""


class Killed(BaseException):
    """Raised where the process is killed."""


@pytest.fixture
def world_and_settings(
    spark: SparkSession, public_folder: Path, tmp_path: Path
) -> Iterator[tuple[World, Settings]]:
    settings = workspace(public_folder)
    with database.connect_database(settings, "derived") as connection:
        world = World(spark, connection, settings, definitions(spark, settings, RULES), tmp_path)
        for batch in Plan.draw(7).batches[:3]:
            world.ingest(batch, at_once=False)
        world.end_input()
        yield world, settings


def _kill_after(step: Any) -> Any:
    def kill(*values: Any) -> None:
        step(*values)
        raise Killed

    return kill


def _views(world: World, settings: Settings, connection: Connection[Any]) -> HistoryBuilder:
    schemas = [stream_schema(name, declared) for name, declared in settings.streams.items()]
    related = RelationVersions(
        Relations(connection, settings.relations).table, frozenset(settings.relations)
    )
    return HistoryBuilder(connection, connection, world.root, schemas, related)


def _make_all(views: HistoryBuilder, spark: SparkSession) -> list[DerivedStreamTask]:
    tasks = []
    while (work := views.next_task()) is not None:
        assert isinstance(work, DerivedStreamTask)
        views.execute(work, lambda: spark)
        tasks.append(work)
    return tasks


@pytest.mark.slow
def test_derived_rows_needed_by_recalls_are_archived_once_and_read(
    world_and_settings: tuple[World, Settings], spark: SparkSession
) -> None:
    world, settings = world_and_settings
    session, connection = spark.newSession(), world.connection
    with patch.object(derived_streams, "vacuum_table"):  # takes seconds; see `_expired`
        works = _archive(world, settings, session)
    closed = [chunk for chunk in world.archive.chunks if chunk.to_ts is not None]
    assert len(closed) > 1
    assert {(one.stream.name, one.chunk) for one in works} == {
        (n, c.id) for n in ("load", "kept") for c in closed
    }
    end = closed[-1].to_ts
    for name, query in {
        "load": LOAD,
        "kept": "SELECT host, at AS ts, w FROM b WHERE w > 3",
    }.items():
        version = next(one.stream.version for one in works if one.stream.name == name)
        rows = (
            open_table(world.root, name, version)
            .read(["ts", "host", "v" if name == "load" else "w"])
            .to_pylist()
        )
        world.batch_events()  # its views of whole tables
        text = f"SELECT * FROM ({query}) WHERE ts < timestamp_micros({end})"
        expected = (
            world.spark.sql(text)
            .toArrow()
            .select(["ts", "host", "v" if name == "load" else "w"])
            .to_pylist()
        )
        assert sorted(map(repr, rows)) == sorted(map(repr, expected))
        assert rows
    _answers_are_the_same(world, connection, session, end)
    _expired(world, connection, works)
    _forgotten(world, settings, connection, works)


def _archive(world: World, settings: Settings, session: SparkSession) -> list[DerivedStreamTask]:
    """Archive all closed chunks, the first one despite a kill and beside another process."""
    connection = world.connection
    work = _views(world, settings, connection).next_task()
    assert isinstance(work, DerivedStreamTask)
    with (
        patch.object(StreamTable, "replace_chunk", _kill_after(StreamTable.replace_chunk)),
        pytest.raises(Killed),
    ):
        _views(world, settings, connection).execute(work, lambda: session)
    with (
        database.connect_database(settings, "another process") as other,
        try_lock(other, *_lock_name(work)),
    ):
        begun = "SELECT tries FROM derived_chunks WHERE chunk = %s AND stream = %s"
        before = connection.execute(begun, (work.chunk, work.stream.name)).fetchall()
        _views(world, settings, connection).execute(work, lambda: session)
        assert (
            connection.execute(begun, (work.chunk, work.stream.name)).fetchall() == before == [(1,)]
        )
    works = _make_all(_views(world, settings, connection), session)
    with patch.object(StreamTable, "replace_chunk", lambda *_: pytest.fail("it is there")):
        _views(world, settings, connection).execute(work, lambda: session)
    return works


def test_orderly_shutdown_counts_no_attempt(
    world_and_settings: tuple[World, Settings], spark: SparkSession
) -> None:
    """Errors of Spark during shutdown are not charged to the rows."""
    world, settings = world_and_settings
    assert _attempts(world, settings, spark, "before Spark has started") == []
    assert _attempts(world, settings, spark, "in a query") == [(0, None)]
    assert _attempts(world, settings, spark, "not at all") == [(1, "Job cancelled")]


def _attempts(
    world: World, settings: Settings, spark: SparkSession, ended: str
) -> list[tuple[int, str | None]]:
    """Attempts and error after a task whose process was shut down at some time."""
    views = _views(world, settings, world.connection)
    work = views.next_task()
    assert isinstance(work, DerivedStreamTask)

    def session() -> SparkSession:
        if ended == "before Spark has started":
            views.shut_down()
        return spark.newSession()

    def cancelled(*_: object) -> None:
        if ended == "in a query":
            views.shut_down()
        raise ValueError("Job cancelled")

    with patch.object(DerivedStreamBuilder, "_select_rows", cancelled):
        views.execute(work, session)
    return world.connection.execute("SELECT tries, error FROM derived_chunks").fetchall()


def _answers_are_the_same(
    world: World, connection: Connection[Any], session: SparkSession, end: int | None
) -> None:
    assert end is not None
    (definition,) = RuleRegistry(connection).desired_rules()
    streams = {name: table.schema.time for name, table in world.archive.tables.items()}
    question = build_questions(
        definition, build_rule_tables(definition.rule, streams, frozenset({"hosts"}))
    )["norm"]
    assert isinstance(question, SqlQuestion)
    reader = Reader(world.root, [table.schema for table in world.archive.tables.values()])
    template, archived = Template(question), DerivedStreamReader(connection, world.root, reader)
    engine = SparkEngine(lambda: session, archived.reader, lambda name: pytest.fail(name))
    shares = [
        (RecallEvent(UUID(int=n), end, {}, {"host": f"h{n}", "v": 1.0}), Piece(0, None, end))
        for n in range(3)
    ]
    raw = engine.compute_partial(template, shares, {})
    other = archived.read_archived(template, TimeRange(None, end))
    assert other is not template and not other.partial.inputs.derived
    plain = {eid: table.to_pylist() for eid, table in raw.items()}
    assert {
        eid: table.to_pylist() for eid, table in engine.compute_partial(other, shares, {}).items()
    } == plain
    local = LocalEngine(archived.reader).compute_partial(other, shares, {})
    assert {
        eid: sorted(table.to_pylist()[0].values(), key=repr) for eid, table in local.items()
    } == {eid: sorted(rows[0].values(), key=repr) for eid, rows in plain.items()}
    assert (
        archived.read_archived(template, TimeRange(None, end + 1)) is template
    )  # the newest chunk is not archived


def _expired(world: World, connection: Connection[Any], works: list[DerivedStreamTask]) -> None:
    """What is archived of an expired chunk is read no more, and goes after a while."""
    chunk = min(work.chunk for work in works)
    folders = [
        version_root(world.root, work.stream.version)
        / "streams"
        / work.stream.name
        / f"chunk={chunk}"
        for work in works
        if work.chunk == chunk
    ]
    folders = [folder for folder in folders if folder.exists()]
    assert folders
    connection.execute(
        "UPDATE chunks SET state = 'expired', expired_at = clock_timestamp() WHERE id = %s",
        (chunk,),
    )
    related = RelationVersions(lambda name: pytest.fail(name), frozenset())
    streams = DerivedStreamBuilder(
        connection, connection, world.root, Reader(world.root, []), related
    )
    stream_versions = list({work.stream.name: work.stream for work in works}.values())
    rows = "SELECT count(*) FROM derived_chunks WHERE chunk = %s"
    readable = {row.chunk for row in DerivedChunkGateway(connection).list_readable()}
    assert chunk not in readable and readable
    streams.vacuum(stream_versions, 0.0)
    streams.vacuum(stream_versions, 100_000.0)
    assert connection.execute(rows, (chunk,)).fetchone() != (0,) and all(
        folder.exists() for folder in folders
    )
    connection.execute(
        "UPDATE chunks SET expired_at = expired_at - interval '1 day' WHERE id = %s", (chunk,)
    )
    streams.vacuum(stream_versions, 200_000.0)
    assert connection.execute(rows, (chunk,)).fetchone() == (0,) and all(
        folder.exists() for folder in folders
    )
    tables = [open_table(world.root, stream.name, stream.version) for stream in stream_versions]
    for table in tables:
        streams.vacuum_local_table(table, world.spark)
    assert all(list(folder.glob("*.parquet")) for folder in folders), "the history is not over"
    with patch.object(derived_streams, "_DELETION_GRACE", 0.0):
        restarted = DerivedStreamBuilder(
            connection, connection, world.root, Reader(world.root, []), related
        )
        for table in tables:
            restarted.vacuum_local_table(table, world.spark)
    assert not any(list(folder.glob("*.parquet")) for folder in folders)


def _forgotten(
    world: World, settings: Settings, connection: Connection[Any], works: list[DerivedStreamTask]
) -> None:
    """Without the rule no reader needs the streams; their files are deleted later."""
    RuleRegistry(connection).apply([])
    assert _views(world, settings, connection).next_task() is None
    assert connection.execute("SELECT count(*) FROM derived_chunks").fetchone() == (0,)
    folder = version_root(world.root, works[0].stream.version)
    assert folder.is_dir()
    related = RelationVersions(lambda name: pytest.fail(name), frozenset())
    streams = DerivedStreamBuilder(
        connection, connection, world.root, Reader(world.root, []), related
    )
    streams.delete_unneeded_files([], folder.stat().st_mtime + 100_000)
    assert not folder.exists()


def test_version_of_a_derived_stream_covers_the_streams_it_reads() -> None:
    first = {"a": "SELECT ts FROM s", "b": "SELECT ts FROM a", "c": "SELECT ts FROM s"}
    assert compute_derived_version("b", first) == compute_derived_version(
        "b", {**first, "c": "SELECT ts, 1 AS x FROM s"}
    )
    assert compute_derived_version("b", first) != compute_derived_version(
        "b", {**first, "a": "SELECT ts FROM s WHERE true"}
    )
