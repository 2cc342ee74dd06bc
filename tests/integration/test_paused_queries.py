"""Streaming queries are paused without input, and handle all input that comes in a pause."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from archiver.spark.paths import JARS as ENGINE_JARS
from moirae.config import KafkaSource, load_settings_from_environment
from moirae.live.sources import kafka
from moirae.live.sources.files import DiscoveredFile
from moirae.live.sources.queries.pausable_query import PausableQuery
from moirae.live.sources.queries.streaming_queries import start_file_query, start_topic_query
from moirae.live.sources.queries.unread_files import UnreadFilesCheck
from moirae.live.sources.queries.unread_records import UnreadRecordsCheck
from moirae.runtime import connect_database
from tests.broker import JARS, Broker
from tests.faults.harness import workspace
from tests.source_queries import make_source_queries

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


def test_files_that_come_in_a_pause_are_handled(spark: SparkSession, tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    lock = threading.Lock()
    handled: list[str] = []

    def handle_files(files: list[DiscoveredFile]) -> None:
        with lock:
            query.record_batch()
            handled.extend(file.path.name for file in files)

    def start_query() -> StreamingQuery:
        return start_file_query(
            spark,
            {"s": str(landing / "*.jsonl")},
            checkpoint=tmp_path / "checkpoint",
            handle_files=handle_files,
            drain=False,
        )

    check = UnreadFilesCheck(
        "s", str(landing / "*.jsonl"), landing, lambda names: names - set(handled)
    )
    query = PausableQuery(lock=lock, start_query=start_query, has_unread=check.has_unread)
    query.start()
    expected = []
    # Also an empty file: as long as it is unread, the query is not paused.
    for number, content in enumerate(("{}\n", "", "{}\n")):
        _update_until(query, lambda: query.is_paused)
        assert not query.is_running()
        expected.append(f"{number}.jsonl")
        (landing / expected[-1]).write_text(content)
        _update_until(query, lambda: sorted(handled) == expected)
        assert query.is_running()
    query.stop()


def test_file_that_ends_a_pause_is_archived_before_its_query_runs(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    with workspace(WORKSPACE, "groups: []\n") as root:
        settings = load_settings_from_environment(root / "moirae.yaml")
        with connect_database(settings, "tests") as connection:
            ingested: list[list[str]] = []
            queries = make_source_queries(settings, connection, spark, ingested.append)

            def update_until(condition: Callable[[], bool]) -> None:
                deadline = time.monotonic() + 120
                while not condition():
                    assert time.monotonic() < deadline
                    queries.raise_failure()
                    queries.update()
                    time.sleep(0.05)

            queries.start()
            try:
                for number in range(2):
                    update_until(lambda: not spark.streams.active)
                    # Nothing is unread then: the query must not pause again before its batch.
                    monkeypatch.setattr(QUIET_TIME, 120.0)
                    ingested.clear()
                    name = f"landing/{number}.jsonl"
                    row = f'{{"ts": "2026-01-01T00:00:0{number}Z", "n": {number}}}\n'
                    (root / name).write_text(row)
                    queries.update()
                    assert ingested == [[name]], "in the update that ends the pause"
                    update_until(lambda: len(ingested) > 1)
                    assert ingested == [[name], [name]], "the query delivers it as well"
                    monkeypatch.setattr(QUIET_TIME, 0.4)
            finally:
                queries.stop()
            row = connection.execute(
                "SELECT sum(read), sum(archived), count(*) FROM units"
            ).fetchone()
            assert row == (2, 2, 2)


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
