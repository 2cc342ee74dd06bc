"""Streaming queries are paused without input, and handle all input that comes in a pause."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from archiver.spark.paths import JARS as ENGINE_JARS
from moirae.config import KafkaSource
from moirae.live.sources import kafka
from moirae.live.sources.queries.pausable_query import PausableQuery
from moirae.live.sources.queries.streaming_queries import start_topic_query
from moirae.live.sources.queries.unread_records import UnreadRecordsCheck
from tests.broker import JARS, Broker

WORKSPACE = """
home: .moirae
streams:
  cpu:
    columns: {ts: timestamp, n: int}
    time: ts
    id: [n]
    source: {files: landing/*.jsonl}
"""

QUIET_TIME = "moirae.live.sources.queries.query_pause._QUIET_TIME"

pytestmark = pytest.mark.services


@pytest.fixture(autouse=True)
def _short_quiet_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QUIET_TIME, 0.4)


def _update_until(query: PausableQuery, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        assert query.failure() is None
        query.update()
        time.sleep(0.05)


@pytest.mark.skipif(
    not (JARS.is_dir() and list(ENGINE_JARS.glob("*kafka*"))),
    reason="no Kafka here: `make setup broker` fetches it",
)
@pytest.mark.slow
def test_records_that_come_in_a_pause_are_handled(spark: SparkSession, tmp_path: Path) -> None:
    from confluent_kafka import Producer

    broker = Broker(tmp_path)
    broker.start()
    client = Producer({"bootstrap.servers": broker.address})
    client.produce("cpu", b"0")
    assert client.flush(60) == 0
    source = KafkaSource.model_validate({"kafka": {"servers": broker.address, "topic": "cpu"}})
    lock = threading.Lock()
    handled: list[bytes] = []

    def handle_records(records: DataFrame, end_offsets: str) -> None:
        with lock:
            query.record_batch()
            handled.extend(records.toArrow()["value"].to_pylist())

    def start_query() -> StreamingQuery:
        return start_topic_query(
            spark,
            "cpu",
            kafka.reader_options(source),
            checkpoint=tmp_path / "checkpoint",
            handle_records=handle_records,
            drain=False,
        )

    check = UnreadRecordsCheck(spark, source, tmp_path / "checkpoint")
    query = PausableQuery(lock=lock, start_query=start_query, has_unread=check)
    try:
        query.start()
        expected = [b"0"]
        for number in range(1, 3):
            _update_until(query, lambda: query.is_paused)
            expected.append(str(number).encode())
            client.produce("cpu", expected[-1])
            assert client.flush(60) == 0
            _update_until(query, lambda: len(handled) >= len(expected))
            assert handled == expected
        _update_until(query, lambda: query.is_paused)
        broker.kill()
        _update_until(query, query.is_running)  # Spark reports what is wrong
    finally:
        query.stop()
        check.close()
        broker.kill()
