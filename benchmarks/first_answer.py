"""G1, G1b: time to the first answer of a norm (mean, deviation, count) ÷ a full scan for the same.

A hundred chunks with 30 million rows, archived as Delta tables. The first answer reads the newest chunk, through the
engine that the recall process uses, to the merged answer. Beside it the same query over all files: in the same Spark
session (G1), and in DuckDB with all its threads (G1b). Its condition is on no key, so that clustering helps nobody. All
are warm; nothing is kept from one repetition to the next.
"""

import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import duckdb
import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from archiver.engine.session import start_session
from archiver.reader import Reader
from archiver.schema import StreamSchema
from archiver.table import StreamTable
from archiver.times import to_micros
from benchmarks.results import Result, kernel, result
from recall.engines.local import LocalEngine
from recall.engines.spark import SparkEngine
from recall.engines.template import Template, merged
from recall.request import Asked, Piece, SqlQuestion

_REPETITIONS = 5
_CHUNKS = 100
_ROWS = 300_000
_HOSTS = 200
_START = datetime(2026, 1, 1, tzinfo=UTC)
_SECONDS = 3600
_COLUMNS = {"ts": "timestamp", "host": "string", "v": "double", "n": "bigint"}
_SCHEMA = StreamSchema("past", _COLUMNS, "ts", None, ("host",), timedelta(0), timedelta(0))
_OUTPUTS = "avg(p.v) AS mean, stddev(p.v) AS sd, count(*) AS n"
_SQL = f"SELECT {_OUTPUTS} FROM past p WHERE p.n <> event.n"


def run() -> list[Result]:
    """Measure, interleaved."""
    noise: list[float] = []
    taken: dict[str, list[float]] = {"spark": [], "spark_full": [], "local": [], "duckdb_full": []}
    with _archive() as root, _spark() as spark:
        engine, local = SparkEngine(spark.newSession, _reader(root), _no_relations), LocalEngine(_reader(root))
        files = _reader(root).files("past", None, None)
        duck = duckdb.connect(":memory:")
        kinds: dict[str, Callable[[int], float]] = {
            "spark": lambda n: _first(engine, n),
            "spark_full": lambda n: _full_by_spark(spark, files, n),
            "local": lambda n: _first(local, n),
            "duckdb_full": lambda n: _full_by_duckdb(duck, files, n),
        }
        for ask in kinds.values():
            ask(1)
        for repetition in range(_REPETITIONS):
            noise.append(kernel())
            for name, ask in kinds.items():
                taken[name].append(ask(repetition + 2))
            told = ", ".join(f"{name} {values[-1]:.4f} s" for name, values in taken.items())
            print(f"{repetition + 1}/{_REPETITIONS} {told}", file=sys.stderr)
    local_what = "time to first answer by the local reader ÷ DuckDB's full scan"
    return [
        _row("G1", "time to first answer ÷ full scan, Spark", taken["spark"], taken["spark_full"], noise),
        _row("G1b", local_what, taken["local"], taken["duckdb_full"], noise),
    ]


def _row(goal: str, what: str, first: list[float], full: list[float], noise: list[float]) -> Result:
    ratios = [a / b for a, b in zip(first, full, strict=True)]
    beside = {
        "first_seconds": round(statistics.median(first), 4),
        "full_scan_seconds": round(statistics.median(full), 4),
        "million_rows": round(_ROWS * _CHUNKS / 1e6, 1),
    }
    return result(goal, what, ratios, "≤ 1/30 = 0.033", beside, noise)


@contextmanager
def _archive() -> Iterator[Path]:
    root = Path(tempfile.mkdtemp(prefix="moirae-bench-"))
    table = StreamTable(root, _SCHEMA)
    rng = np.random.default_rng(1)
    hosts = pa.array([f"h{number}" for number in range(_HOSTS)])
    for chunk in range(_CHUNKS):
        table.append(_rows(rng, hosts, chunk), chunk)
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _rows(rng: np.random.Generator, hosts: pa.Array, chunk: int) -> pa.Table:
    """A chunk as it is kept once it is closed: by host, then time."""
    arrow = _SCHEMA.arrow()
    start = to_micros(_START) + chunk * _SECONDS * 1_000_000
    columns = {
        "ts": pa.array(np.sort(rng.integers(0, _SECONDS * 1_000_000, _ROWS)) + start, arrow.field("ts").type),
        "host": hosts.take(pa.array(rng.integers(0, _HOSTS, _ROWS))),
        "v": pa.array(rng.normal(50, 10, _ROWS)),
        "n": pa.array(rng.integers(0, 1000, _ROWS)),
        "_late": pa.array(np.zeros(_ROWS, bool)),
        "chunk": pa.array(np.full(_ROWS, chunk, np.int32)),
    }
    blank = {field.name: pa.nulls(_ROWS, field.type) for field in arrow if field.name not in columns}
    return pa.table({**blank, **columns}).select(arrow.names).sort_by([("host", "ascending"), ("ts", "ascending")])


@contextmanager
def _spark() -> Iterator[SparkSession]:
    warehouse = Path(tempfile.mkdtemp(prefix="moirae-bench-"))
    conf = {"spark.sql.codegen.wholeStage": "true", "spark.sql.shuffle.partitions": "1"}
    session = start_session("benchmark", "local[2]", warehouse, conf)
    try:
        yield session
    finally:
        session.stop()
        shutil.rmtree(warehouse, ignore_errors=True)


def _reader(root: Path) -> Reader:
    return Reader(root, [_SCHEMA])


def _no_relations(name: str) -> pa.Table:
    raise AssertionError(name)


def _first(engine: SparkEngine | LocalEngine, n: int) -> float:
    began = time.perf_counter()
    template = Template(SqlQuestion(None, 1.0, "newest", _SQL, {"past": "ts"}, (), {}, {"n": "bigint"}, {}, {}))
    start = to_micros(_START) + (_CHUNKS - 1) * _SECONDS * 1_000_000
    piece: Piece = (_CHUNKS - 1, start, start + _SECONDS * 1_000_000)
    asked = Asked(UUID(int=1), piece[2], {}, {"n": n})
    found = engine.partial(template, [(asked, piece)], {})
    held = [(asked, merged(template, None, found.get(str(asked.eid))))]
    answer = engine.answer(template, held) if isinstance(engine, LocalEngine) else engine.answer(template, held, {})
    seconds = time.perf_counter() - began
    assert answer[str(asked.eid)][0]["n"] > 0
    return seconds


def _full_by_spark(spark: SparkSession, files: list[str], n: int) -> float:
    began = time.perf_counter()
    spark.read.schema(_SCHEMA.ddl()).parquet(*files).createOrReplaceTempView("past")
    (row,) = spark.sql(f"SELECT {_OUTPUTS} FROM past p WHERE p.n <> {n}").collect()
    seconds = time.perf_counter() - began
    assert row.n > 0
    return seconds


def _full_by_duckdb(duck: duckdb.DuckDBPyConnection, files: list[str], n: int) -> float:
    began = time.perf_counter()
    names = ", ".join(f"'{file}'" for file in files)
    found = duck.sql(f"SELECT {_OUTPUTS} FROM read_parquet([{names}]) p WHERE p.n <> {n}").fetchall()
    seconds = time.perf_counter() - began
    assert found[0][2] > 0
    return seconds
