"""R1, R2: clustering a closed chunk, and finding the history of a new rule in it.

R1: a chunk of many small appends is clustered (one file, by key and time, with statistics and row
identities), compared with Delta's own Z-order of the same rows. The tables are open, so their logs
are read already. Identities are most of the difference: small files have none. R2: the history of
a filter and of a window is found in a chunk by the product's finder, compared with their plain
queries over the chunk's files in the same Spark session.
"""

import sys
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from archiver.delta import StreamTable
from archiver.read import Reader
from archiver.time_range import TimeRange
from benchmarks.archived_rows import ROW_INTERVAL, SCHEMA, archived_rows
from benchmarks.fixtures import spark_session, temporary_folder
from benchmarks.long_history import fail_on_relation
from benchmarks.results import BenchmarkResult, make_result, rounded_median
from benchmarks.timing import measure_seconds, time_noise_kernel
from moirae.evaluation.plan import ActiveRule
from moirae.history import PastFinder, RelationVersions
from moirae.rules import Definition, Rule
from moirae.rules.model import AlertSpec

_REPETITIONS = 5
_APPEND_COUNT = 100
_ROWS_PER_APPEND = 5_000
_ROW_COUNT = _APPEND_COUNT * _ROWS_PER_APPEND
_HOST_COUNT = 200
_WINDOW_MICROS = 60_000_000
# From this event time on, in microseconds, the last window is closed.
_END = _ROW_COUNT * ROW_INTERVAL + _WINDOW_MICROS
_QUERIES = {
    "filter": "SELECT host, n, ts FROM past WHERE v > 99.9",
    "window": (
        "SELECT host, window.end AS ts, avg(v) AS mean FROM past "
        "GROUP BY host, window(ts, '1 minute') HAVING avg(v) > 51"
    ),
}
_ATTRIBUTE_TYPES = {
    "filter": {"host": "string", "n": "bigint"},
    "window": {"host": "string", "mean": "double"},
}
_EVENT_IDS = {"filter": ("n",), "window": ("host",)}


def run() -> list[BenchmarkResult]:
    """Measure both goals."""
    return [_measure_clustering(), *_measure_history_of_rules()]


def _draw_appends() -> list[pa.Table]:
    appends = []
    for first in range(0, _ROW_COUNT, _ROWS_PER_APPEND):
        appends.append(archived_rows(first, _ROWS_PER_APPEND, chunk=0, hosts=_HOST_COUNT))
    return appends


def _measure_clustering() -> BenchmarkResult:
    noise: list[float] = []
    ratios: list[float] = []
    clustered_rates: list[float] = []
    z_order_rates: list[float] = []
    appends = _draw_appends()
    for repetition in range(_REPETITIONS):
        noise.append(time_noise_kernel())
        with temporary_folder() as root:
            clustering = _time_clustering(root / "clustered", appends)
            z_order = _time_z_order(root / "z_order", appends)
        ratios.append(clustering / z_order)
        clustered_rates.append(_ROW_COUNT / clustering)
        z_order_rates.append(_ROW_COUNT / z_order)
        print(
            f"R1 {repetition + 1}/{_REPETITIONS} clustering {clustering:.3f} s, "
            f"Z-order {z_order:.3f} s",
            file=sys.stderr,
        )
    return make_result(
        "R1",
        f"clustering a chunk of {_APPEND_COUNT} appends ÷ Delta's Z-order",
        ratios,
        target="≤ 1",
        details={
            "clustered_rows_per_s": rounded_median(clustered_rates, 0),
            "z_order_rows_per_s": rounded_median(z_order_rates, 0),
        },
        noise=noise,
    )


def _create_table(root: Path, appends: list[pa.Table]) -> StreamTable:
    table = StreamTable(root, SCHEMA)
    for number, rows in enumerate(appends):
        table.append(rows, number)
    return table


def _time_clustering(root: Path, appends: list[pa.Table]) -> float:
    table = _create_table(root, appends)
    return measure_seconds(partial(table.cluster, 0))


def _time_z_order(root: Path, appends: list[pa.Table]) -> float:
    for rows in appends:
        write_deltalake(root, rows, mode="append", partition_by=["chunk"])
    table = DeltaTable(root)
    return measure_seconds(partial(table.optimize.z_order, ["host", "ts"]))


def _measure_history_of_rules() -> list[BenchmarkResult]:
    noise: list[float] = []
    ratios: defaultdict[str, list[float]] = defaultdict(list)
    rates: defaultdict[str, list[float]] = defaultdict(list)
    with temporary_folder() as root, spark_session({}) as session:
        steps = _prepare_steps(root, session)
        for repetition in range(_REPETITIONS):
            noise.append(time_noise_kernel())
            for kind, (find_history, run_query) in steps.items():
                find_seconds = measure_seconds(find_history)
                ratios[kind].append(find_seconds / measure_seconds(run_query))
                rates[kind].append(_ROW_COUNT / find_seconds)
            latest = ", ".join(f"{kind} {values[-1]:.2f}" for kind, values in ratios.items())
            print(f"R2 {repetition + 1}/{_REPETITIONS} {latest}", file=sys.stderr)
    results = []
    for kind, values in ratios.items():
        result = make_result(
            "R2",
            f"history of a {kind} in a chunk of {_ROW_COUNT:,} rows ÷ its query over the files",
            values,
            target="–",
            details={"rows_per_s": rounded_median(rates[kind], 0)},
            noise=noise,
        )
        results.append(result)
    return results


def _prepare_steps(
    root: Path, session: SparkSession
) -> dict[str, tuple[Callable[[], int], Callable[[], int]]]:
    """By kind of rule: the steps that find its history and run its query, already run once."""
    table = _create_table(root, _draw_appends())
    table.cluster(0)
    finder = PastFinder(
        session.newSession(),
        Reader(root, [SCHEMA]),
        RelationVersions(fail_on_relation, frozenset()),
    )
    steps: dict[str, tuple[Callable[[], int], Callable[[], int]]] = {}
    for kind, sql in _QUERIES.items():
        find_history = partial(_count_events, finder, _make_rule(kind))
        run_query = partial(_count_query_rows, session, table.local_paths(), sql)
        assert 0 < find_history() == run_query()
        steps[kind] = (find_history, run_query)
    return steps


def _make_rule(kind: str) -> ActiveRule:
    rule = Rule("bench", AlertSpec(alert="Late", expr=_QUERIES[kind]))
    definition = Definition(rule, _ATTRIBUTE_TYPES[kind], key=("host",), id=_EVENT_IDS[kind])
    return ActiveRule.create(definition, {"past": "ts"}, frozenset())


def _count_events(finder: PastFinder, rule: ActiveRule) -> int:
    return len(finder.find_events(rule, TimeRange(None, _END)))


def _count_query_rows(session: SparkSession, files: list[str], sql: str) -> int:
    session.read.schema(SCHEMA.ddl()).parquet(*files).createOrReplaceTempView("past")
    return len(session.sql(sql).collect())
