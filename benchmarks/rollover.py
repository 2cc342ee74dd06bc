"""R1, R2: what becomes of a chunk when it closes, and when a rule comes later, by the real table and finder.

R1: a chunk of many small appends clustered (one file, by key and time, with statistics and identities), beside Delta's
own Z-order of the same rows; the tables are open, their files are read. Identities are most of our part: small files
have none. R2: the past of a rule found in a chunk, a filter's and a window's, beside the plain query
over the chunk's files by the same Spark.
"""

import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from archiver.engine.session import start_session
from archiver.identity import fingerprint
from archiver.reader import Reader
from archiver.schema import StreamSchema
from archiver.table import StreamTable
from benchmarks.history import no_relations
from benchmarks.results import Result, kernel, result
from moirae.judging.plan import Running
from moirae.rules.definition import Definition, event_shape, tables_of
from moirae.rules.model import Alert
from moirae.rules.ruleset import Rule
from moirae.views.find import Finder, Related

_REPETITIONS = 5
_APPENDS, _ROWS = 100, 5_000
_COLUMNS = {"ts": "timestamp", "host": "string", "n": "bigint", "v": "double"}
_SCHEMA = StreamSchema("past", _COLUMNS, "ts", ("host", "n"), ("host",), timedelta(0), timedelta(0))
_STEP = 1_000  # microseconds of event time from row to row
_FILTER = "SELECT host, n, ts FROM past WHERE v > 99.9"
_WINDOW = (
    "SELECT host, window.end AS ts, avg(v) AS mean FROM past GROUP BY host, window(ts, '1 minute') HAVING avg(v) > 51"
)
_TYPES = {_FILTER: {"host": "string", "n": "bigint"}, _WINDOW: {"host": "string", "mean": "double"}}


def run() -> list[Result]:
    """Measure, interleaved."""
    return [_rolled(), *_materialised()]


def _appended(number: int) -> pa.Table:
    """The rows of one append."""
    rng, first = np.random.default_rng(number), number * _ROWS
    numbers = np.arange(first, first + _ROWS)
    rows = pa.table(
        {
            "ts": pa.array(numbers * _STEP, pa.timestamp("us", tz="UTC")),
            "host": pa.array([f"h{n}" for n in rng.integers(0, 200, _ROWS)]),
            "n": pa.array(numbers),
            "v": pa.array(np.round(rng.uniform(0, 100, _ROWS), 2)),
            "_extra": pa.nulls(_ROWS, pa.string()),
        }
    )
    ids, hashes = fingerprint(_SCHEMA, rows)
    added = {
        "_late": pa.array(np.zeros(_ROWS, dtype=bool)),
        "_id": pa.array(ids, pa.binary()),
        "_hash": pa.array(hashes),
        "_unit": pa.array(np.full(_ROWS, number)),
        "_line": pa.array(np.arange(_ROWS)),
        "chunk": pa.array(np.zeros(_ROWS, dtype=np.int32)),
    }
    for name, values in added.items():
        rows = rows.append_column(name, values)
    return rows.select([name for name in _SCHEMA.arrow().names if name in rows.column_names])


def _rolled() -> Result:
    noise: list[float] = []
    ratios: list[float] = []
    rates: dict[str, list[float]] = {}
    parts = [_appended(number) for number in range(_APPENDS)]
    for repetition in range(_REPETITIONS):
        noise.append(kernel())
        with _folder() as root:
            ours = _clustered(root / "ours", parts)
            naive = _ordered(root / "naive", parts)
        ratios.append(ours / naive)
        for name, seconds in (("clustered, rows/s", ours), ("Z-order, rows/s", naive)):
            rates.setdefault(name, []).append(_APPENDS * _ROWS / seconds)
        print(f"R1 {repetition + 1}/{_REPETITIONS} {ours:.3f} s, Z-order {naive:.3f} s", file=sys.stderr)
    beside = {name: round(statistics.median(values), 0) for name, values in rates.items()}
    return result("R1", f"a chunk of {_APPENDS} appends clustered ÷ Delta's Z-order", ratios, "≤ 1", beside, noise)


def _clustered(root: Path, parts: list[pa.Table]) -> float:
    table = StreamTable(root, _SCHEMA)
    for number, rows in enumerate(parts):
        table.append(rows, number)
    began = time.perf_counter()
    table.cluster(0)
    return time.perf_counter() - began


def _ordered(root: Path, parts: list[pa.Table]) -> float:
    for rows in parts:
        write_deltalake(root, rows, mode="append", partition_by=["chunk"])
    table = DeltaTable(root)
    began = time.perf_counter()
    table.optimize.z_order(["host", "ts"])
    return time.perf_counter() - began


def _materialised() -> list[Result]:
    noise: list[float] = []
    ratios: dict[str, list[float]] = {}
    rates: dict[str, list[float]] = {}
    rows = _APPENDS * _ROWS
    end = rows * _STEP + 60_000_000  # when the last window has ended
    with _folder() as root, _spark(root / "warehouse") as spark:
        table = StreamTable(root, _SCHEMA)
        for number in range(_APPENDS):
            table.append(_appended(number), number)
        table.cluster(0)
        finder = Finder(spark.newSession(), Reader(root, [_SCHEMA]), Related(no_relations, frozenset()))
        files = table.files()
        steps = {
            kind: (partial(_found, finder, _running(sql), end), partial(_plain, spark, files, sql))
            for kind, sql in (("filter", _FILTER), ("window", _WINDOW))
        }
        for find, query in steps.values():
            assert 0 < find() == query()
        for repetition in range(_REPETITIONS):
            noise.append(kernel())
            for kind, (find, query) in steps.items():
                ours = _seconds(find)
                ratios.setdefault(kind, []).append(ours / _seconds(query))
                rates.setdefault(kind, []).append(rows / ours)
            told = ", ".join(f"{kind} {values[-1]:.2f}" for kind, values in ratios.items())
            print(f"R2 {repetition + 1}/{_REPETITIONS} {told}", file=sys.stderr)
    what = f"the past of a rule in a chunk of {rows:,} rows ÷ its query over the chunk's files"
    return [
        result("R2", f"{what}: {kind}", values, "–", {"rows/s": round(statistics.median(rates[kind]), 0)}, noise)
        for kind, values in ratios.items()
    ]


def _running(sql: str) -> Running:
    rule = Rule("bench", Alert(alert="Late", expr=sql))
    key = ("host",)
    tables = tables_of(rule, {"past": "ts"}, frozenset())
    return Running(
        Definition(rule, _TYPES[sql], key, ("n",) if "n" in _TYPES[sql] else key),
        tables,
        event_shape(rule, tables),
        None,
    )


def _found(finder: Finder, rule: Running, end: int) -> int:
    return len(finder.events(rule, None, end))


def _plain(spark: SparkSession, files: list[str], sql: str) -> int:
    spark.read.schema(_SCHEMA.ddl()).parquet(*files).createOrReplaceTempView("past")
    return len(spark.sql(sql).collect())


def _seconds(step: Callable[[], int]) -> float:
    began = time.perf_counter()
    step()
    return time.perf_counter() - began


@contextmanager
def _folder() -> Iterator[Path]:
    root = Path(tempfile.mkdtemp(prefix="moirae-bench-"))
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


@contextmanager
def _spark(warehouse: Path) -> Iterator[SparkSession]:
    session = start_session("benchmark", "local[2]", warehouse, {})
    try:
        yield session
    finally:
        session.stop()
