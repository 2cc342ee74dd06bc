"""Topics of a real broker, and their readers over a workspace with a database."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

import sql
from archiver.chunks import CutPolicy
from archiver.executors import ExecutorIngest, SparkJobs
from archiver.ingest import ArchiveWriter, SourceUnit
from archiver.ingest.engines import EngineMode, EnginePolicy, TopicRecords
from archiver.spark.paths import JARS as ENGINE_JARS
from archiver.times import to_micros
from moirae.config import Settings, load_settings_from_environment, stream_schema
from moirae.live.set_aside import SetAside
from moirae.live.sources import InputArchiving
from moirae.live.sources.topics.reader import TopicReader
from moirae.live.sources.topics.readers import TopicReaders
from moirae.live.unit_failures import UnitFailures
from moirae.runtime import connect_database
from sql.archive import SetAsideGateway, UnitGateway
from sql.topics import SourceErrorGateway
from tests.broker import JARS, Broker
from tests.workspaces import workspace, write_workspace

needs_broker = pytest.mark.skipif(
    not (JARS.is_dir() and list(ENGINE_JARS.glob("*kafka*"))),
    reason="no Kafka here: `make setup broker` fetches it",
)

STREAM = """
  {name}:
    columns: {{ts: timestamp, k: string}}
    time: ts
    id: [k]
    source: {{kafka: {{servers: "{servers}", topic: {topic}{more}}}}}
"""


def declare(servers: str, properties: str = "", **topics: str) -> str:
    """A workspace file; `topics`: the topic of each stream. `properties`: the file of all."""
    more = f", properties: {properties}" if properties else ""
    streams = [
        STREAM.format(name=name, servers=servers, topic=topic, more=more)
        for name, topic in topics.items()
    ]
    return "home: .moirae\nstreams:\n" + "".join(streams)


class Topics:
    """Makes topics of a broker, and sends records to them."""

    def __init__(self, broker: Broker, **security: str) -> None:
        """`security`: settings of the clients, with `_` for `.` in their names."""
        from confluent_kafka.admin import AdminClient

        self.servers = broker.address
        settings: dict[str, Any] = {"bootstrap.servers": broker.address, "log_level": 0}
        settings |= {name.replace("_", "."): value for name, value in security.items()}
        self._admin = AdminClient(settings)
        self._settings = settings
        self._connect_producer()

    def _connect_producer(self) -> None:
        from confluent_kafka import Producer

        self._producer = Producer(self._settings)

    def create(self, topic: str, partitions: int = 1, **config: str) -> None:
        """Make a topic, and wait until it is there."""
        from confluent_kafka.admin import NewTopic

        made = self._admin.create_topics([NewTopic(topic, partitions, 1, config=config)])
        made[topic].result(60)
        self._wait(lambda: topic in self._admin.list_topics(timeout=30).topics)

    def delete(self, topic: str) -> None:
        """Delete a topic, and wait until it is gone."""
        self._admin.delete_topics([topic])[topic].result(60)
        self._wait(lambda: topic not in self._admin.list_topics(timeout=30).topics)

    def add_partitions(self, topic: str, count: int) -> None:
        """Give a topic more partitions."""
        from confluent_kafka.admin import NewPartitions

        self._admin.create_partitions([NewPartitions(topic, count)])[topic].result(60)
        self._wait(
            lambda: (
                len(self._admin.list_topics(topic, timeout=30).topics[topic].partitions) == count
            )
        )
        self._connect_producer()  # another one would not know them for minutes

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Delete the records before an offset, as the retention of a topic does."""
        from confluent_kafka import TopicPartition

        position = TopicPartition(topic, partition, before)
        self._admin.delete_records([position])[position].result(60)

    def send(
        self,
        topic: str,
        values: Sequence[bytes | None],
        partition: int = 0,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> None:
        """Send records, each with the headers, and wait until the broker has stored them."""
        for value in values:
            self._producer.produce(
                topic, value, key=b"k", partition=partition, headers=list(headers)
            )
        assert self._producer.flush(60) == 0

    def send_rows(self, topic: str, prefix: str, count: int, partition: int = 0) -> None:
        """Send rows with the keys `<prefix>0`, `<prefix>1`, …"""
        self.send(topic, [row(f"{prefix}{number}") for number in range(count)], partition)

    def list_keys(self, topic: str) -> list[str]:
        """The keys of the rows that partition 0 of a topic holds."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({**self._settings, "group.id": "tests", "enable.auto.commit": False})
        partition = TopicPartition(topic, 0)
        first, end = consumer.get_watermark_offsets(partition, timeout=30)
        consumer.assign([TopicPartition(topic, 0, first)])
        keys: list[str] = []
        while consumer.position([partition])[0].offset < end:
            message = consumer.poll(1.0)
            if message is not None:
                keys.append(json.loads(message.value())["k"])
        consumer.close()
        return keys

    def begin_transaction(self, name: str) -> Any:
        """A producer whose transaction has begun."""
        from confluent_kafka import Producer

        producer = Producer({**self._settings, "transactional.id": name})
        producer.init_transactions(60)
        producer.begin_transaction()
        return producer

    @staticmethod
    def _wait(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.1)


def row(key: str) -> bytes:
    """A row of a stream as it is declared here."""
    return json.dumps({"ts": "2026-01-01T00:00:00Z", "k": key}).encode()


class ReaderWorld:
    """The topics of one workspace, read step by step in this process, without live detection."""

    def __init__(
        self, root: Path, connection: sql.Connection, spark: SparkSession, engine: EngineMode
    ) -> None:
        self.root = root
        self.connection = connection
        self._spark = spark
        self._engine: EngineMode = engine
        self.start()

    def declare(self, servers: str, **topics: str) -> None:
        """Change the workspace file, and start anew."""
        write_workspace(self.root, declare(servers, **topics))
        self.start()

    def start(self, drain: bool = False) -> None:
        """Begin as a new live process does."""
        self.settings: Settings = load_settings_from_environment(self.root / "moirae.yaml")
        schemas = [stream_schema(name, item) for name, item in self.settings.streams.items()]
        self.archive = ArchiveWriter(
            Path(self.settings.archive),
            schemas,
            CutPolicy(100_000, 3_600_000_000),
            self.connection,
            lambda: None,
        )
        self.archive.engines.policy = EnginePolicy(self._engine, large_batch=1)
        if self._engine == "spark":
            jobs = SparkJobs(self._spark.sparkContext)
            self.archive.engines.executors = ExecutorIngest(jobs, self.archive.engines.sizes)

        def ingest_units(units: Sequence[SourceUnit]) -> list[SourceUnit]:
            self.archive.ingest(units, to_micros(datetime.now(UTC)))
            return []

        def ingest_records(records: TopicRecords) -> None:
            self.archive.ingest_records(records, to_micros(datetime.now(UTC)))

        ingest: Any = SimpleNamespace(ingest_units=ingest_units, ingest_records=ingest_records)
        units = UnitGateway(self.connection)
        archiving = InputArchiving(
            archive=self.archive,
            ingest=ingest,
            failures=UnitFailures(SetAside(SetAsideGateway(self.connection)), units),
            units=units,
            lock=threading.Lock(),
        )
        errors = SourceErrorGateway(self.connection)
        self.readers = TopicReaders(self._spark, self.settings, archiving, errors, drain=drain)
        self.readers.leave_topics()

    def reader(self, stream: str) -> TopicReader:
        return self.readers.by_stream[stream]

    def read(self, stream: str) -> None:
        """Read a topic until nothing is unread."""
        reader = self.reader(stream)
        deadline = time.monotonic() + 120
        while True:
            pause = reader.run_once()
            if pause is None or (not reader.outage.is_failing and pause > 0):
                return
            assert time.monotonic() < deadline, reader.outage.problem
            time.sleep(pause)

    def count(self, stream: str, prefix: str = "") -> int:
        """Rows of a stream in the archive, by the beginning of their keys."""
        count = 0
        table = self.archive.tables[stream]
        for chunk in table.files_by_chunk():
            keys = table.read(["k"], chunk)["k"].to_pylist()
            count += sum(key.startswith(prefix) for key in keys)
        return count

    def losses(self) -> list[tuple[Any, ...]]:
        """What the ledger holds as lost."""
        return self.connection.execute(
            "SELECT stream, topic, partition, first_offset, last_offset, reason FROM lost_records"
            " ORDER BY id"
        ).fetchall()


@contextmanager
def reader_world(
    spark: SparkSession, engine: EngineMode, servers: str, properties: str = "", **topics: str
) -> Iterator[ReaderWorld]:
    """A workspace whose streams read topics."""
    with workspace(declare(servers, properties, **topics), "groups: []\n") as root:
        settings = load_settings_from_environment(root / "moirae.yaml")
        with connect_database(settings, "tests") as connection:
            world = ReaderWorld(root, connection, spark, engine)
            yield world
            world.readers.stop()
