"""R1, R2: what becomes of a chunk when it closes, and when a rule comes later, by the real table and finder.

R1: a chunk of many small appends clustered (one file, by key and time, with statistics and identities), beside Delta's
own Z-order of the same rows; the tables are open, their files are read. Identities are most of our part: small files
have none. R2: the past of a rule found in a chunk, a filter's and a window's, beside the plain query
over the chunk's files by the same Spark.
"""

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from archiver.reader import Reader
from archiver.table import StreamTable
from benchmarks.appended import SCHEMA, STEP, appended
from benchmarks.history import no_relations
from benchmarks.places import folder, spark
from benchmarks.results import Result, kernel, result
from moirae.judging.plan import Running
from moirae.rules.definition import Definition, event_shape, tables_of
from moirae.rules.model import Alert
from moirae.rules.ruleset import Rule
from moirae.views.find import Finder, Related

_REPETITIONS = 5
_APPENDS, _ROWS = 100, 5_000
_HOSTS = 200
_FILTER = "SELECT host, n, ts FROM past WHERE v > 99.9"
_WINDOW = (
    "SELECT host, window.end AS ts, avg(v) AS mean FROM past GROUP BY host, window(ts, '1 minute') HAVING avg(v) > 51"
)
_TYPES = {_FILTER: {"host": "string", "n": "bigint"}, _WINDOW: {"host": "string", "mean": "double"}}


def run() -> list[Result]:
    """Measure, interleaved."""
    return [_rolled(), *_materialised()]


def _rolled() -> Result:
    noise: list[float] = []
    ratios: list[float] = []
    rates: dict[str, list[float]] = {}
    parts = [appended(number * _ROWS, _ROWS, 0, _HOSTS) for number in range(_APPENDS)]
    for repetition in range(_REPETITIONS):
        noise.append(kernel())
        with folder() as root:
            ours = _clustered(root / "ours", parts)
            naive = _ordered(root / "naive", parts)
        ratios.append(ours / naive)
        for name, seconds in (("clustered, rows/s", ours), ("Z-order, rows/s", naive)):
            rates.setdefault(name, []).append(_APPENDS * _ROWS / seconds)
        print(f"R1 {repetition + 1}/{_REPETITIONS} {ours:.3f} s, Z-order {naive:.3f} s", file=sys.stderr)
    beside = {name: round(statistics.median(values), 0) for name, values in rates.items()}
    return result("R1", f"a chunk of {_APPENDS} appends clustered ÷ Delta's Z-order", ratios, "≤ 1", beside, noise)


def _clustered(root: Path, parts: list[pa.Table]) -> float:
    table = StreamTable(root, SCHEMA)
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
    end = rows * STEP + 60_000_000  # when the last window has ended
    with folder() as root, spark({}) as session:
        table = StreamTable(root, SCHEMA)
        for number in range(_APPENDS):
            table.append(appended(number * _ROWS, _ROWS, 0, _HOSTS), number)
        table.cluster(0)
        finder = Finder(session.newSession(), Reader(root, [SCHEMA]), Related(no_relations, frozenset()))
        files = table.files()
        steps = {
            kind: (partial(_found, finder, _running(sql), end), partial(_plain, session, files, sql))
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
    )


def _found(finder: Finder, rule: Running, end: int) -> int:
    return len(finder.events(rule, None, end))


def _plain(session: SparkSession, files: list[str], sql: str) -> int:
    session.read.schema(SCHEMA.ddl()).parquet(*files).createOrReplaceTempView("past")
    return len(session.sql(sql).collect())


def _seconds(step: Callable[[], int]) -> float:
    began = time.perf_counter()
    step()
    return time.perf_counter() - began
