"""Avro messages of a real topic, with a schema registry that may be away."""

import io
import json
import struct
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from fastavro import parse_schema, schemaless_writer
from pyspark.sql import SparkSession

from tests.broker import Broker
from tests.registry import Registry, serving_registry
from tests.topics import Topics, needs_broker, reader_world

pytestmark = [needs_broker, pytest.mark.services, pytest.mark.slow]

SCHEMA = """{"type": "record", "name": "R", "fields": [
    {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "k", "type": "string"}]}"""


@pytest.fixture(scope="module")
def topics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topics]:
    broker = Broker(tmp_path_factory.mktemp("broker"))
    broker.start()
    yield Topics(broker)
    broker.kill()


@pytest.fixture
def registry() -> Iterator[Registry]:
    with serving_registry() as serving:
        serving.add(7, "AVRO", SCHEMA)
        yield serving


def _message(key: str) -> bytes:
    content = io.BytesIO()
    record = {"ts": datetime(2026, 1, 1, tzinfo=UTC), "k": key}
    schemaless_writer(content, parse_schema(json.loads(SCHEMA)), record)
    return struct.pack(">bI", 0, 7) + content.getvalue()


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_messages_are_archived_once_although_the_registry_was_away(
    topics: Topics, registry: Registry, spark: SparkSession, engine: Any
) -> None:
    topic = f"avro-{engine}"
    topics.create(topic)
    topics.send(topic, [*(_message(f"k{number}") for number in range(20)), b"junk"])
    with reader_world(spark, engine, topics.servers, x=topic) as world:
        file = world.root / "moirae.yaml"
        source = f"}}, format: avro, registry: {registry.url}}}"
        file.write_text(file.read_text().replace("}}", source))
        world.start()
        registry.status = 503
        reader = world.reader("x")
        reader.outage._clock = iter(range(0, 10_000, 10)).__next__
        for _ in range(2):
            assert reader.run_once() is not None
        assert reader.outage.problem is not None
        assert "schema registry 127.0.0.1 cannot be read" in reader.outage.problem.error
        assert "Traceback" not in reader.outage.problem.error
        registry.status = 0
        world.read("x")
        assert world.count("x", "k") == 20
        counts = world.connection.execute("SELECT sum(read), sum(archived) FROM units").fetchone()
        assert counts == (21, 20)
        letters = world.connection.execute("SELECT raw FROM dead_letters").fetchall()
        assert [bytes(raw) for (raw,) in letters] == [b"junk"]
