"""Rows of lost data files are read again from what still has their records: growing files that were
renamed, objects, topics.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import sql
from archiver.chunks import CutPolicy
from archiver.delta import StreamTable
from archiver.ingest import ArchiveWriter
from archiver.storage import ObjectPath
from archiver.times import to_micros
from moirae.config import Settings, load_settings_from_environment, stream_schema
from moirae.errors import TopicError
from moirae.live.sources.files import DiscoveredFile, make_units
from moirae.repair import BackupFiles, Repairs
from moirae.runtime import connect_database
from moirae.runtime.storage import open_storage
from sql.archive import RepairGateway, UnitGateway
from sql.workspace import WorkspaceGateway
from tests.broker import Broker
from tests.growing_files import STREAM, TEXT, GrowingFileReader
from tests.store import put_object
from tests.topics import Topics, needs_broker, reader_world
from tests.workspaces import workspace

pytestmark = [pytest.mark.services, pytest.mark.slow]

OBJECTS = """
home: .moirae
streams:
  cpu:
    columns: {{ts: timestamp, n: int}}
    time: ts
    source: {{files: "{bucket}/in/*.jsonl"}}
"""


def _lose_all(settings: Settings) -> None:
    """Delete the data files of each stream."""
    for name, declared in settings.streams.items():
        schema = stream_schema(name, declared)
        if StreamTable.exists(open_storage(settings), name):
            for path in StreamTable(open_storage(settings), schema).local_paths():
                Path(path).unlink()


def _repair(
    settings: Settings, connection: sql.Connection, spark: SparkSession | None = None
) -> list[str]:
    """Repair; what is lost. `spark`: for topics."""
    backups = BackupFiles(None, WorkspaceGateway(connection).get())
    repairs = Repairs(settings, connection, backups, partial(_require, spark))
    return [step.loss for step in repairs.run(dry_run=False) if step.loss]


def _require(spark: SparkSession | None) -> SparkSession:
    assert spark is not None
    return spark


def _compact(connection: sql.Connection, stream: str) -> None:
    """Forget the names of the source units, as the ledger does after an hour."""
    units = UnitGateway(connection)
    units.compact(stream, [unit.id for unit in units.list_ledger(stream)])


def _lost_rows(connection: sql.Connection) -> int:
    return sum(lost.rows for lost in RepairGateway(connection).list_lost())


def _count(settings: Settings, stream: str) -> int:
    schema = stream_schema(stream, settings.streams[stream])
    return sum(file.rows for file in StreamTable(open_storage(settings), schema).data_files())


@pytest.mark.parametrize("is_compacted", [False, True])
@pytest.mark.parametrize("change", ["renamed", "copied and truncated", "truncated"])
def test_growing_files_are_read_again_wherever_their_lines_are(
    tmp_path: Path, change: str, is_compacted: bool
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    log = logs / "app.log"
    declared = STREAM.format(files=logs / "app.log*", format=TEXT, options="")
    with workspace(f"home: .moirae\n{declared}", "groups: []\n") as root:
        settings = load_settings_from_environment(root / "moirae.yaml")
        with connect_database(settings, "tests") as connection:
            reader = GrowingFileReader(root, connection)
            for name in ("a", "same", "same", "b"):
                with log.open("a") as file:
                    file.write(f"2026-01-01T00:00:00Z {name}\n")
                reader.update()
            before = reader.update()
            assert sorted(before) == ["a", "b", "same", "same"]
            if change == "renamed":
                log.rename(logs / "app.log.1")
                log.write_text("2026-01-01T00:00:00Z other\n")
            else:
                if change == "copied and truncated":
                    (logs / "app.log.1").write_bytes(log.read_bytes())
                log.write_text("")
            if is_compacted:
                _compact(connection, "app")
            _lose_all(settings)
            _repair(settings, connection)
            lost = 4 if change == "truncated" else 0
            assert _lost_rows(connection) == lost
            assert _count(settings, "app") == 4 - lost
            if not lost and not is_compacted:
                assert GrowingFileReader(root, connection).messages() == before


def _archive_objects(settings: Settings, connection: sql.Connection, urls: list[str]) -> None:
    schemas = [stream_schema(name, declared) for name, declared in settings.streams.items()]
    policy = CutPolicy(1_000, 3_600_000_000)
    writer = ArchiveWriter(open_storage(settings), schemas, policy, connection, lambda: None)
    files = []
    for listed in (ObjectPath(url).inspect() for url in urls):
        files.append(DiscoveredFile("cpu", listed.path, to_micros(listed.modified), listed.size))
    formats = {"cpu": settings.streams["cpu"].source.record_format}
    units = make_units(files, formats, settings.file.parent)
    writer.ingest(units, to_micros(datetime.now(UTC)))


def test_objects_are_read_again_unless_they_were_replaced(bucket: str) -> None:
    with workspace(OBJECTS.format(bucket=bucket), "groups: []\n") as root:
        settings = load_settings_from_environment(root / "moirae.yaml")
        urls = [f"{bucket}/in/{number}.jsonl" for number in range(3)]
        for number, url in enumerate(urls):
            rows = [{"ts": "2026-01-01T00:00:00Z", "n": n} for n in (number, number + 10)]
            lines = "".join(json.dumps(row) + "\n" for row in rows)
            put_object(url, lines.encode())
        with connect_database(settings, "tests") as connection:
            _archive_objects(settings, connection, urls)
            assert _count(settings, "cpu") == 6
            _lose_all(settings)
            put_object(urls[1], b'{"ts": "2026-01-01T00:00:00Z", "n": 7}\n')
            _repair(settings, connection)
            assert (_count(settings, "cpu"), _lost_rows(connection)) == (4, 2)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    broker = Broker(tmp_path_factory.mktemp("broker"))
    broker.start()
    yield broker
    broker.kill()


@needs_broker
def test_topics_are_read_again_as_far_as_they_have_their_records(
    broker: Broker, spark: SparkSession
) -> None:
    topics = Topics(broker)
    topics.create("again", 2)
    topics.send_rows("again", "a", 40)
    topics.send_rows("again", "b", 20, partition=1)
    with reader_world(spark, "local", topics.servers, x="again") as world:
        world.read("x")
        topics.send_rows("again", "c", 10)
        world.read("x")
        assert world.count("x") == 70
        _lose_all(world.settings)
        assert _repair(world.settings, world.connection, spark) == []
        assert (_count(world.settings, "x"), _lost_rows(world.connection)) == (70, 0)
        # Their records are known: none comes twice.
        world.start()
        world.read("x")
        assert _count(world.settings, "x") == 70
        _compact(world.connection, "x")
        _lose_all(world.settings)
        assert _repair(world.settings, world.connection, spark) == []
        assert (_count(world.settings, "x"), _lost_rows(world.connection)) == (70, 0)
        topics.send_rows("again", "d", 15)
        world.start()
        world.read("x")
        topics.delete_records("again", 0, 60)
        _lose_all(world.settings)
        (loss,) = _repair(world.settings, world.connection, spark)
        assert loss == "up to 10 records that the topic has deleted"
        # 50 rows of compacted units, and 10 of the last one.
        assert (_count(world.settings, "x"), _lost_rows(world.connection)) == (25, 60)


@needs_broker
def test_rows_of_a_topic_that_was_made_again_are_lost_and_of_one_that_is_away_are_not(
    broker: Broker, spark: SparkSession
) -> None:
    topics = Topics(broker)
    topics.create("made")
    topics.send_rows("made", "a", 5)
    with reader_world(spark, "local", topics.servers, x="made") as world:
        world.read("x")
        _lose_all(world.settings)
        world.declare("127.0.0.1:1", x="made")
        with pytest.raises(TopicError):
            _repair(world.settings, world.connection, spark)
        assert _lost_rows(world.connection) == 0
        topics.delete("made")
        topics.create("made")
        topics.send_rows("made", "a", 5)
        world.declare(topics.servers, x="made")
        _repair(world.settings, world.connection, spark)
        assert _lost_rows(world.connection) == 5
