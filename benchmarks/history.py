"""A long history to measure recalls on: a workspace whose archive holds one stream in many closed chunks, written as
the archiver leaves them, and recalls about it by the real manager, ledger and reader, in this process.

Hosts are the stream's key, so a closed chunk lies in their order; what an app has done lies anywhere.
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

from archiver.catalog import Catalog
from archiver.chunk import Chunk
from archiver.reader import Reader
from archiver.schema import StreamSchema
from archiver.table import StreamTable
from archiver.times import to_micros
from moirae import database
from moirae.settings import Settings, from_environment
from recall.corpora import Corpora
from recall.engines.chosen import Engines
from recall.engines.kept import Kept
from recall.engines.local import LocalEngine
from recall.engines.spark import SparkEngine
from recall.keys import Keys
from recall.ledger import Ledger, Terms
from recall.manager.loop import Manager
from recall.request import Asked, Request, SqlQuestion
from recall.schedule.stride import Stride

CHUNKS = 100
SPAN = 3600 * 1_000_000
"""Microseconds of event time in a chunk."""
START = to_micros(datetime(2026, 1, 1, tzinfo=UTC))
END = START + CHUNKS * SPAN
_HOSTS, _APPS = 200, 50
_COLUMNS = {"ts": "timestamp", "host": "string", "app": "string", "v": "double"}
SCHEMA = StreamSchema("past", _COLUMNS, "ts", None, ("host",), timedelta(0), timedelta(days=1))
_WORKSPACE = """
home: .moirae
streams:
  past: {columns: {ts: timestamp, host: string, app: string, v: double}, time: ts, source: {files: landing/*.jsonl}}
rules: []
"""


@dataclass(frozen=True)
class History:
    """`rows`: of each chunk."""

    root: Path
    connection: Connection[Any]
    settings: Settings
    rows: int


@contextmanager
def history(rows: int) -> Iterator[History]:
    """A workspace with a hundred chunks of so many rows; the newest is open."""
    root = Path(tempfile.mkdtemp(prefix="moirae-bench-"))
    root.chmod(0o755)  # PostgreSQL may run as another user
    (root / "moirae.yaml").write_text(_WORKSPACE)
    settings = from_environment(root / "moirae.yaml")
    try:
        with database.connect(settings, "benchmark") as connection:
            table = StreamTable(Path(settings.archive), SCHEMA)
            for chunk in range(CHUNKS):
                table.append(_archived(chunk, rows), chunk)
            Catalog(connection).put_chunks([_chunk(number) for number in range(CHUNKS)])
            yield History(Path(settings.archive), connection, settings, rows)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _chunk(number: int) -> Chunk:
    low = START + number * SPAN if number else None
    newest = number == CHUNKS - 1
    return Chunk(number, low, None if newest else START + (number + 1) * SPAN, "present" if newest else "recent")


def drawn(chunk: int, rows: int) -> tuple[np.ndarray[Any, Any], ...]:
    """What is in a chunk: event times, numbers of hosts and apps, values."""
    rng = np.random.default_rng(chunk)
    ts = np.sort(rng.integers(0, SPAN, rows)) + START + chunk * SPAN
    return ts, rng.integers(0, _HOSTS, rows), rng.integers(0, _APPS, rows), np.round(rng.uniform(0, 100, rows), 2)


def _archived(chunk: int, rows: int) -> pa.Table:
    arrow = SCHEMA.arrow()
    ts, hosts, apps, values = drawn(chunk, rows)
    columns = {
        "ts": pa.array(ts, arrow.field("ts").type),
        "host": pa.array([f"h{number}" for number in range(_HOSTS)]).take(pa.array(hosts)),
        "app": pa.array([f"a{number}" for number in range(_APPS)]).take(pa.array(apps)),
        "v": pa.array(values),
        "_late": pa.array(np.zeros(rows, bool)),
        "chunk": pa.array(np.full(rows, chunk, np.int32)),
    }
    blank = {field.name: pa.nulls(rows, field.type) for field in arrow if field.name not in columns}
    return pa.table({**blank, **columns}).select(arrow.names).sort_by([("host", "ascending"), ("ts", "ascending")])


# Recalls


def questioned(condition: str) -> SqlQuestion:
    """What an app's values are like."""
    outputs = "avg(p.v) AS mean, stddev(p.v) AS sd, count(*) AS n"
    sql = f"SELECT {outputs} FROM past p WHERE p.app = event.app AND {condition}"
    return SqlQuestion(None, 1.0, "newest", sql, {"past": "ts"}, (), {}, {"app": "string"}, {}, {})


def event(app: int, number: int = 0) -> Asked:
    """Something that happened to an app at the end of history."""
    return Asked(UUID(int=number + 1), END, {}, {"app": f"a{app}"})


def ask(connection: Connection[Any], asked: Sequence[tuple[int, str]]) -> None:
    """One recall for each app and condition; nothing else is asked."""
    connection.execute("TRUNCATE tasks CASCADE")
    for number, (app, condition) in enumerate(asked):
        request = Request("bench/r", "1", f"recall{number}", questioned(condition), event(app, number), 0)
        Ledger(connection).add([request])


def manager(
    root: Path, connection: Connection[Any], workers: list[Engines], stride: Stride[UUID] | None = None
) -> Manager:
    """A manager that keeps tickets as they are, and has been idle before it is asked."""
    ledger = Ledger(connection, Ledger.lease(connection), Terms(price=0))
    keys = Keys(Reader(root, [SCHEMA]))
    keys.learn()
    return Manager(connection, ledger, Corpora(connection, root), keys, workers, 600.0, stride=stride)


def engines(root: Path, kept: Kept) -> Engines:
    """Those of one worker; all is read in this process, which follows what is archived."""
    reader = Reader(root, [SCHEMA])
    reader.follow(())
    return Engines(SparkEngine(_no_spark, reader, no_relations), LocalEngine(reader), kept)


def _no_spark() -> SparkSession:
    raise AssertionError("these questions are served in the process")


def no_relations(name: str) -> pa.Table:
    """There are none."""
    raise AssertionError(name)


def count(connection: Connection[Any], condition: str) -> int:
    """Of tasks."""
    row = connection.execute(f"SELECT count(*) FROM tasks WHERE {condition}".encode()).fetchone()
    assert row is not None
    return int(row[0])
