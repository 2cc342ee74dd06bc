"""R1, R2: what becomes of a chunk when it closes, and when a rule comes later, by the real table
and finder.

R1: a chunk of many small appends clustered (one file, by key and time, with statistics and
identities), beside Delta's own Z-order of the same rows; the tables are open, their files are
read. Identities are most of our part: small files have none. R2: the past of a rule found in a
chunk, a filter's and a window's, beside the plain query over the chunk's files by the same Spark.
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

from archiver.delta import StreamTable
from archiver.read import Reader
from benchmarks.archived_rows import ROW_INTERVAL, SCHEMA, archived_rows
from benchmarks.fixtures import spark_session, temporary_folder
from benchmarks.long_history import fail_on_relation
from benchmarks.results import BenchmarkResult, make_result, time_noise_kernel
from moirae.evaluation import ActiveRule
from moirae.history import PastFinder, RelationVersions
from moirae.rules import Definition, Rule, build_rule_tables, infer_event_shape
from moirae.rules.model import AlertSpec

_REPETITIONS = 5
_APPEND_COUNT, _ROWS_PER_APPEND = 100, 5_000
_HOST_COUNT = 200
_FILTER = "SELECT host, n, ts FROM past WHERE v > 99.9"
_WINDOW = "SELECT host, window.end AS ts, avg(v) AS mean FROM past GROUP BY host, window(ts, '1 minute') HAVING avg(v) > 51"
_TYPES = {_FILTER: {"host": "string", "n": "bigint"}, _WINDOW: {"host": "string", "mean": "double"}}


def run() -> list[BenchmarkResult]:
    """Measure, interleaved."""
    return [_measure_clustering(), *_measure_materialisation()]


def _measure_clustering() -> BenchmarkResult:
    noise: list[float] = []
    ratios: list[float] = []
    rates: dict[str, list[float]] = {}
    parts = [
        archived_rows(number * _ROWS_PER_APPEND, _ROWS_PER_APPEND, 0, _HOST_COUNT)
        for number in range(_APPEND_COUNT)
    ]
    for repetition in range(_REPETITIONS):
        noise.append(time_noise_kernel())
        with temporary_folder() as root:
            ours = _time_clustering(root / "ours", parts)
            naive = _time_z_order(root / "naive", parts)
        ratios.append(ours / naive)
        for name, seconds in (("clustered, rows/s", ours), ("Z-order, rows/s", naive)):
            rates.setdefault(name, []).append(_APPEND_COUNT * _ROWS_PER_APPEND / seconds)
        print(
            f"R1 {repetition + 1}/{_REPETITIONS} {ours:.3f} s, Z-order {naive:.3f} s",
            file=sys.stderr,
        )
    beside = {name: round(statistics.median(values), 0) for name, values in rates.items()}
    return make_result(
        "R1",
        f"a chunk of {_APPEND_COUNT} appends clustered ÷ Delta's Z-order",
        ratios,
        "≤ 1",
        beside,
        noise,
    )


def _time_clustering(root: Path, parts: list[pa.Table]) -> float:
    table = StreamTable(root, SCHEMA)
    for number, rows in enumerate(parts):
        table.append(rows, number)
    began = time.perf_counter()
    table.cluster(0)
    return time.perf_counter() - began


def _time_z_order(root: Path, parts: list[pa.Table]) -> float:
    for rows in parts:
        write_deltalake(root, rows, mode="append", partition_by=["chunk"])
    table = DeltaTable(root)
    began = time.perf_counter()
    table.optimize.z_order(["host", "ts"])
    return time.perf_counter() - began


def _measure_materialisation() -> list[BenchmarkResult]:
    noise: list[float] = []
    ratios: dict[str, list[float]] = {}
    rates: dict[str, list[float]] = {}
    rows = _APPEND_COUNT * _ROWS_PER_APPEND
    end = rows * ROW_INTERVAL + 60_000_000  # when the last window has ended
    with temporary_folder() as root, spark_session({}) as session:
        table = StreamTable(root, SCHEMA)
        for number in range(_APPEND_COUNT):
            table.append(
                archived_rows(number * _ROWS_PER_APPEND, _ROWS_PER_APPEND, 0, _HOST_COUNT), number
            )
        table.cluster(0)
        finder = PastFinder(
            session.newSession(),
            Reader(root, [SCHEMA]),
            RelationVersions(fail_on_relation, frozenset()),
        )
        files = table.local_paths()
        steps = {
            kind: (
                partial(_count_found_events, finder, _make_rule(sql), end),
                partial(_count_query_rows, session, files, sql),
            )
            for kind, sql in (("filter", _FILTER), ("window", _WINDOW))
        }
        for find, query in steps.values():
            assert 0 < find() == query()
        for repetition in range(_REPETITIONS):
            noise.append(time_noise_kernel())
            for kind, (find, query) in steps.items():
                ours = _measure_seconds(find)
                ratios.setdefault(kind, []).append(ours / _measure_seconds(query))
                rates.setdefault(kind, []).append(rows / ours)
            told = ", ".join(f"{kind} {values[-1]:.2f}" for kind, values in ratios.items())
            print(f"R2 {repetition + 1}/{_REPETITIONS} {told}", file=sys.stderr)
    what = f"the past of a rule in a chunk of {rows:,} rows ÷ its query over the chunk's files"
    return [
        make_result(
            "R2",
            f"{what}: {kind}",
            values,
            "–",
            {"rows/s": round(statistics.median(rates[kind]), 0)},
            noise,
        )
        for kind, values in ratios.items()
    ]


def _make_rule(sql: str) -> ActiveRule:
    rule = Rule("bench", AlertSpec(alert="Late", expr=sql))
    key = ("host",)
    tables = build_rule_tables(rule, {"past": "ts"}, frozenset())
    return ActiveRule(
        Definition(rule, _TYPES[sql], key, ("n",) if "n" in _TYPES[sql] else key),
        tables,
        infer_event_shape(rule, tables),
    )


def _count_found_events(finder: PastFinder, rule: ActiveRule, end: int) -> int:
    return len(finder.find_events(rule, None, end))


def _count_query_rows(session: SparkSession, files: list[str], sql: str) -> int:
    session.read.schema(SCHEMA.ddl()).parquet(*files).createOrReplaceTempView("past")
    return len(session.sql(sql).collect())


def _measure_seconds(step: Callable[[], int]) -> float:
    began = time.perf_counter()
    step()
    return time.perf_counter() - began
