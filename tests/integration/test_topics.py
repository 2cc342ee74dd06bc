"""Topics of a real broker: deleted and made again, shortened, extended, compacted, away."""

import time
from collections.abc import Iterator
from functools import partial

import pytest
from pyspark.sql import SparkSession

from moirae.config import load_settings_from_environment
from tests.broker import Broker
from tests.landing import put_file
from tests.source_readers import archive_present_files
from tests.topics import STREAM, ReaderWorld, Topics, declare, needs_broker, reader_world, row
from tests.waiting import wait_until
from tests.workspaces import write_workspace

pytestmark = [needs_broker, pytest.mark.services]

_BOTH_ENGINES = ["local", pytest.param("spark", marks=pytest.mark.slow)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    broker = Broker(tmp_path_factory.mktemp("broker"))
    broker.start()
    yield broker
    broker.kill()


@pytest.fixture(scope="module")
def topics(broker: Broker) -> Topics:
    return Topics(broker)


@pytest.mark.parametrize("engine", _BOTH_ENGINES)
def test_topic_made_again_while_down_is_read_from_its_beginning(
    topics: Topics, spark: SparkSession, engine: str
) -> None:
    topic = f"down-{engine}"
    topics.create(topic, partitions=3)
    topics.send_rows(topic, "a", 40)
    with reader_world(spark, engine, topics.servers, x=topic) as world:
        world.read("x")
        assert world.count("x") == 40
        # Fewer, as many, and more records than were read; also twice, and with other partitions.
        for attempt, (count, partitions) in enumerate([(60, 3), (60, 1), (10, 2)]):
            topics.delete(topic)
            topics.create(topic, partitions)
            topics.send_rows(topic, f"g{attempt}-", count)
            world.start()
            world.read("x")
            assert world.count("x", f"g{attempt}-") == count
        # Nobody saw what the old topics held in the end.
        assert [loss[2:] for loss in world.losses()] == [
            ("0", 40, None, "recreated"),
            ("1", 0, None, "recreated"),
            ("2", 0, None, "recreated"),
            ("0", 60, None, "recreated"),
            ("1", 0, None, "recreated"),
            ("2", 0, None, "recreated"),
            ("0", 60, None, "recreated"),
        ]
        read, archived = world.connection.execute(
            "SELECT sum(read), sum(archived) FROM units"
        ).fetchone()
        assert read == archived == 170


def test_topic_made_again_while_live_loses_what_it_held_unread(
    topics: Topics, spark: SparkSession
) -> None:
    topics.create("live")
    topics.send_rows("live", "a", 30)
    with reader_world(spark, "local", topics.servers, x="live") as world:
        world.read("x")
        topics.delete("live")
        assert world.reader("x").run_once() is not None
        topics.create("live")
        topics.send_rows("live", "b", 30)
        world.read("x")
        assert (world.count("x", "b"), world.losses()) == (30, [])
        # Records that were seen and could not be read in time.
        topics.send_rows("live", "c", 5)
        reader = world.reader("x")
        reader.position.update(reader._client.fetch_state(), reader._client.fetch_id)
        topics.delete("live")
        topics.create("live")
        world.read("x")
        assert world.losses() == [("x", "live", "0", 30, 34, "recreated")]


@pytest.mark.parametrize("engine", _BOTH_ENGINES)
def test_records_deleted_unread_are_lost_by_range_and_reading_goes_on(
    topics: Topics, spark: SparkSession, engine: str
) -> None:
    topic = f"retention-{engine}"
    topics.create(topic)
    topics.send_rows(topic, "a", 100)
    with reader_world(spark, engine, topics.servers, x=topic) as world:
        world.read("x")
        topics.send_rows(topic, "b", 100)
        topics.delete_records(topic, 0, 150)
        world.start()
        world.read("x")
        assert world.losses() == [("x", topic, "0", 100, 149, "deleted")]
        assert (world.count("x", "a"), world.count("x", "b")) == (100, 50)
        # Records that were read may be deleted.
        topics.delete_records(topic, 0, 200)
        world.start()
        world.read("x")
        assert len(world.losses()) == 1


@pytest.mark.slow
def test_partitions_that_are_added_are_read(topics: Topics, spark: SparkSession) -> None:
    topics.create("grows")
    topics.send_rows("grows", "a", 10)
    with reader_world(spark, "local", topics.servers, x="grows") as world:
        world.read("x")
        topics.add_partitions("grows", 3)
        topics.send_rows("grows", "b", 10, partition=2)
        deadline = time.monotonic() + 30
        while world.count("x", "b") < 10:
            world.read("x")
            assert time.monotonic() < deadline
        assert world.losses() == []


@pytest.mark.slow
def test_other_topic_and_back_reads_nothing_twice(topics: Topics, spark: SparkSession) -> None:
    for topic in ("one", "two"):
        topics.create(topic)
        topics.send_rows(topic, topic, 10)
    with reader_world(spark, "local", topics.servers, x="one") as world:
        for topic in ("one", "two", "one", "two"):
            world.declare(topics.servers, x=topic)
            world.read("x")
            topics.send_rows(topic, f"{topic}-more", 5)
            world.read("x")
        counts = world.connection.execute(
            "SELECT sum(read), sum(archived), sum(duplicates) FROM units"
        ).fetchone()
        # The second round sends the same rows again.
        assert counts == (40, 30, 10)
        assert world.losses() == []


@pytest.mark.slow
def test_stream_changes_between_files_and_a_topic_and_reads_each_record_once(
    topics: Topics, spark: SparkSession
) -> None:
    topics.create("mixed", partitions=2)
    by_topic = declare(topics.servers, x="mixed")
    source = (
        STREAM.partition("source: ")[2]
        .format(servers=topics.servers, topic="mixed", more="")
        .strip()
    )
    by_files = by_topic.replace(source, "{files: landing/*.jsonl}")
    assert by_files != by_topic
    with reader_world(spark, "local", topics.servers, x="mixed") as world:
        (world.root / "landing").mkdir()
        expected: set[str] = set()
        for number, text in enumerate([by_files, by_topic, by_files, by_topic, by_files]):
            # While a stream has another source, its files and records wait.
            topics.send_rows("mixed", f"t{number}-", 5, partition=number % 2)
            lines = b"\n".join(row(f"f{number}-{line}") for line in range(3)) + b"\n"
            put_file(world.root / "landing" / f"{number}.jsonl", lines.decode())
            write_workspace(world.root, text)
            settings = load_settings_from_environment(world.root / "moirae.yaml")
            archive_present_files(settings, world.connection, spark)
            first, count = ("f", 3) if text == by_files else ("t", 5)
            expected |= {f"{first}{n}-{line}" for n in range(number + 1) for line in range(count)}
            world.start()
            table = world.archive.tables["x"]
            chunks = [table.read(["k"], chunk)["k"].to_pylist() for chunk in table.files_by_chunk()]
            keys = [key for chunk in chunks for key in chunk]
            assert sorted(keys) == sorted(expected)
        counts = world.connection.execute("SELECT sum(read), sum(archived) FROM units").fetchone()
        assert counts == (len(expected), len(expected))
        assert world.losses() == []


@pytest.mark.parametrize("engine", _BOTH_ENGINES)
def test_tombstones_are_counted_and_empty_values_are_dead_letters(
    topics: Topics, spark: SparkSession, engine: str
) -> None:
    topic = f"tombstones-{engine}"
    topics.create(topic)
    topics.send(topic, [row("a"), None, b"", None, row("b")])
    with reader_world(spark, engine, topics.servers, x=topic) as world:
        world.read("x")
        counts = world.connection.execute(
            "SELECT sum(read), sum(archived), sum(malformed), sum(tombstones) FROM units"
        ).fetchone()
        assert counts == (3, 2, 1, 2)
        letters = world.connection.execute("SELECT line, detail FROM dead_letters").fetchall()
        assert letters == [(2, "empty record")]
        topics.send(topic, [None])
        world.read("x")
        assert not world.readers.has_unread("x"), "a range may have tombstones only"


@pytest.mark.parametrize("engine", _BOTH_ENGINES)
def test_a_header_closes_the_time_of_its_partition(
    topics: Topics, spark: SparkSession, engine: str
) -> None:
    topic = f"header-{engine}"
    topics.create(topic)
    closed = [("closed", b"2026-01-01T00:10:00Z")]
    topics.send(topic, [row("a")], headers=[("closed", b"then"), ("trace", b"x")])
    with reader_world(spark, engine, topics.servers, x=topic) as world:
        text = declare(topics.servers, x=topic).rstrip()
        write_workspace(world.root, text + "\n    punctuation: closed\n")
        world.start()
        world.read("x")
        topics.send(topic, [None], headers=closed)
        world.read("x")
        topics.send(topic, [row("b")])
        world.read("x")
        counts = world.connection.execute(
            "SELECT sum(read), sum(archived), sum(late), sum(malformed), sum(punctuations),"
            " sum(tombstones) FROM units"
        ).fetchone()
        assert counts == (3, 2, 1, 1, 1, 0)
        letters = world.connection.execute("SELECT line, detail FROM dead_letters").fetchall()
        assert [line for line, _ in letters] == [0]
        assert letters[0][1].startswith("field closed: column ts: 'then' is not a timestamp")


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["local", "spark"])
def test_records_that_compaction_removes_are_not_lost(
    topics: Topics, spark: SparkSession, engine: str
) -> None:
    topic = f"compacted-{engine}"
    compaction = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
        "max.compaction.lag.ms": "1",
        "segment.ms": "50",
    }
    topics.create(topic, **compaction)
    topics.send_rows(topic, "a", 20)
    with reader_world(spark, engine, topics.servers, x=topic) as world:
        world.read("x")
        assert world.count("x", "a") == 20
        topics.send_rows(topic, "b", 20)
        wait_until(partial(_is_compacted, topics, topic), seconds=120)
        before = topics.list_keys(topic)
        world.start()
        world.read("x")
        after = topics.list_keys(topic)
        assert world.losses() == [] and not world.readers.has_unread("x")
        unread = [sum(key[0] != "a" for key in keys) for keys in (after, before)]
        assert unread[0] <= world.count("x") - 20 <= unread[1]
        assert world.count("x", "b") < 20
        counts = world.connection.execute("SELECT sum(read), sum(archived) FROM units").fetchone()
        assert counts == (world.count("x"),) * 2


def _is_compacted(topics: Topics, topic: str) -> bool:
    # A new segment: the newest is not compacted.
    topics.send_rows(topic, f"c{time.monotonic_ns()}-", 1)
    return "b0" not in topics.list_keys(topic)


def _reads(world: ReaderWorld, count: int) -> bool:
    world.read("x")
    return world.count("x") == count


@pytest.mark.slow
def test_gaps_at_the_end_of_a_range_are_no_unread_records(
    topics: Topics, spark: SparkSession
) -> None:
    """A transaction ends with a marker, which has an offset."""
    from confluent_kafka import Producer

    topics.create("gaps")
    settings = {"bootstrap.servers": topics.servers, "transactional.id": "t", "log_level": 0}
    producer = Producer(settings)
    producer.init_transactions(60)
    with reader_world(spark, "local", topics.servers, x="gaps") as world:
        for number in range(2):
            producer.begin_transaction()
            producer.produce("gaps", row(f"a{number}"))
            producer.commit_transaction(60)
            # The broker writes the marker after it has answered.
            wait_until(partial(_reads, world, number + 1), seconds=60)
            assert not world.readers.has_unread("x")
        next_offset = world.connection.execute("SELECT next FROM partitions").fetchone()
        assert next_offset == (4,)
        assert world.losses() == []


@pytest.mark.slow
def test_interrupted_batch_is_read_again_as_it_was(
    topics: Topics, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics.create("crash")
    topics.send_rows("crash", "a", 10)
    with reader_world(spark, "local", topics.servers, x="crash") as world:

        def crash(*_: object, **__: object) -> None:
            raise ConnectionError("kill -9")

        with monkeypatch.context() as patched:
            patched.setattr(world.archive.catalog, "finish_units", crash)
            with pytest.raises(ConnectionError):
                world.read("x")
        topics.send_rows("crash", "b", 10)
        world.start()
        world.read("x")
        units = world.connection.execute(
            "SELECT unit, read, archived, duplicates, done FROM units ORDER BY id"
        ).fetchall()
        assert units == [("crash/0/0-9", 10, 10, 0, True), ("crash/0/10-19", 10, 10, 0, True)]
        assert world.count("x") == 20


@pytest.mark.slow
def test_workspace_of_the_previous_version_goes_on(topics: Topics, spark: SparkSession) -> None:
    topics.create("upgrade")
    topics.send_rows("upgrade", "a", 10)
    with reader_world(spark, "local", topics.servers, x="upgrade") as world:
        world.read("x")
        world.connection.execute(
            "UPDATE topics SET topic_id = NULL, servers = NULL, cluster = NULL"
        )
        topics.send_rows("upgrade", "b", 10)
        world.start()
        world.read("x")
        rows = world.connection.execute("SELECT sum(read), sum(duplicates) FROM units").fetchone()
        assert rows == (20, 0)
        assert world.losses() == []
        # Made again before the upgrade, and shorter than what was read.
        topics.delete("upgrade")
        topics.create("upgrade")
        topics.send_rows("upgrade", "c", 10)
        world.connection.execute(
            "UPDATE topics SET topic_id = NULL, servers = NULL, cluster = NULL"
        )
        world.start()
        world.read("x")
        assert world.count("x", "c") == 10
        assert world.losses() == [("x", "upgrade", "0", 20, None, "recreated")]
