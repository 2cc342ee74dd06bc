"""A long history to measure recalls on: a workspace whose archive holds one stream in many closed
chunks, written as the archiver leaves them, and recalls about it by the real manager, ledger and
reader, in this process.

Hosts are the stream's key, so a closed chunk lies in their order; what an app has done lies
anywhere.
"""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
from psycopg import Connection
from pyspark.sql import SparkSession

from archiver.chunks import Chunk
from archiver.delta import StreamSchema, StreamTable
from archiver.ingest import Catalog
from archiver.read import Reader
from archiver.times import to_micros
from moirae.config import Settings, load_settings_from_environment
from moirae.runtime import database
from recall.corpora import Corpora
from recall.engines import EngineRouter, LocalEngine, PartialCache, SparkEngine
from recall.ledger import Ledger, SchedulingPolicy
from recall.requests import RecallEvent, RecallRequest, SqlQuestion
from recall.scheduling import StrideScheduler
from recall.worker import KeyCounts, ManagerConfig, RecallManager

CHUNK_COUNT = 100
CHUNK_MICROS = 3600 * 1_000_000
"""Microseconds of event time in a chunk."""
START = to_micros(datetime(2026, 1, 1, tzinfo=UTC))
END = START + CHUNK_COUNT * CHUNK_MICROS
_HOST_COUNT, _APP_COUNT = 200, 50
_COLUMNS = {"ts": "timestamp", "host": "string", "app": "string", "v": "double"}
SCHEMA = StreamSchema("past", _COLUMNS, "ts", None, ("host",), timedelta(0), timedelta(days=1))
_WORKSPACE = """
home: .moirae
streams:
  past: {columns: {ts: timestamp, host: string, app: string, v: double}, time: ts, source: {files: landing/*.jsonl}}
rules: []
"""


@dataclass(frozen=True)
class BenchmarkHistory:
    """`rows`: of each chunk."""

    root: Path
    connection: Connection[Any]
    settings: Settings
    rows_per_chunk: int


@contextmanager
def create_history(rows: int) -> Iterator[BenchmarkHistory]:
    """A workspace with a hundred chunks of so many rows; the newest is open."""
    root = Path(tempfile.mkdtemp(prefix="moirae-bench-"))
    root.chmod(0o755)  # PostgreSQL may run as another user
    (root / "moirae.yaml").write_text(_WORKSPACE)
    settings = load_settings_from_environment(root / "moirae.yaml")
    try:
        with database.connect_database(settings, "benchmark") as connection:
            table = StreamTable(Path(settings.archive), SCHEMA)
            for chunk in range(CHUNK_COUNT):
                table.append(_archived_table(chunk, rows), chunk)
            Catalog(connection).put_chunks([_make_chunk(number) for number in range(CHUNK_COUNT)])
            yield BenchmarkHistory(Path(settings.archive), connection, settings, rows)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _make_chunk(number: int) -> Chunk:
    low = START + number * CHUNK_MICROS if number else None
    newest = number == CHUNK_COUNT - 1
    return Chunk(
        number,
        low,
        None if newest else START + (number + 1) * CHUNK_MICROS,
        "present" if newest else "recent",
    )


def draw_chunk(chunk: int, rows: int) -> tuple[np.ndarray[Any, Any], ...]:
    """What is in a chunk: event times, numbers of hosts and apps, values."""
    rng = np.random.default_rng(chunk)
    ts = np.sort(rng.integers(0, CHUNK_MICROS, rows)) + START + chunk * CHUNK_MICROS
    return (
        ts,
        rng.integers(0, _HOST_COUNT, rows),
        rng.integers(0, _APP_COUNT, rows),
        np.round(rng.uniform(0, 100, rows), 2),
    )


def _archived_table(chunk: int, rows: int) -> pa.Table:
    arrow = SCHEMA.arrow_schema()
    ts, hosts, apps, values = draw_chunk(chunk, rows)
    columns = {
        "ts": pa.array(ts, arrow.field("ts").type),
        "host": pa.array([f"h{number}" for number in range(_HOST_COUNT)]).take(pa.array(hosts)),
        "app": pa.array([f"a{number}" for number in range(_APP_COUNT)]).take(pa.array(apps)),
        "v": pa.array(values),
        "_late": pa.array(np.zeros(rows, bool)),
        "chunk": pa.array(np.full(rows, chunk, np.int32)),
    }
    blank = {field.name: pa.nulls(rows, field.type) for field in arrow if field.name not in columns}
    return (
        pa.table({**blank, **columns})
        .select(arrow.names)
        .sort_by([("host", "ascending"), ("ts", "ascending")])
    )


# Recalls


def make_question(condition: str) -> SqlQuestion:
    """What an app's values are like."""
    outputs = "avg(p.v) AS mean, stddev(p.v) AS sd, count(*) AS n"
    sql = f"SELECT {outputs} FROM past p WHERE p.app = event.app AND {condition}"
    return SqlQuestion(None, 1.0, "newest", sql, {"past": "ts"}, (), {}, {"app": "string"}, {}, {})


def make_event(app: int, number: int = 0) -> RecallEvent:
    """Something that happened to an app at the end of history."""
    return RecallEvent(UUID(int=number + 1), END, {}, {"app": f"a{app}"})


def add_recalls(connection: Connection[Any], asked: Sequence[tuple[int, str]]) -> None:
    """One recall for each app and condition; nothing else is asked."""
    connection.execute("TRUNCATE tasks CASCADE")
    for number, (app, condition) in enumerate(asked):
        request = RecallRequest(
            "bench/r", "1", f"recall{number}", make_question(condition), make_event(app, number), 0
        )
        Ledger(connection).add([request])


def create_manager(
    root: Path,
    connection: Connection[Any],
    workers: list[EngineRouter],
    stride: StrideScheduler[UUID] | None = None,
) -> RecallManager:
    """A manager that keeps tickets as they are, and has been idle before it is asked."""
    ledger = Ledger(
        connection, Ledger.acquire_lease(connection), SchedulingPolicy(tickets_per_result=0)
    )
    keys = KeyCounts(Reader(root, [SCHEMA]))
    keys.index_next_file()
    return RecallManager(
        connection,
        ledger,
        Corpora(connection, root),
        key_counts=keys,
        config=ManagerConfig(
            engines=workers,
            query_timeout=600.0,
            stride=StrideScheduler() if stride is None else stride,
        ),
    )


def create_engines(root: Path, partial_cache: PartialCache) -> EngineRouter:
    """Those of one worker; all is read in this process, which follows what is archived."""
    reader = Reader(root, [SCHEMA])
    reader.refresh_present(())
    return EngineRouter(
        SparkEngine(_fail_on_spark, reader, fail_on_relation), LocalEngine(reader), partial_cache
    )


def _fail_on_spark() -> SparkSession:
    raise AssertionError("these questions are served in the process")


def fail_on_relation(name: str) -> pa.Table:
    """There are none."""
    raise AssertionError(name)


def count_tasks(connection: Connection[Any], condition: str) -> int:
    """Of tasks."""
    row = connection.execute(f"SELECT count(*) FROM tasks WHERE {condition}".encode()).fetchone()
    assert row is not None
    return int(row[0])
