"""G1, G1b: time to the first answer of a recall ÷ time of a full scan for the same query.

The query takes mean, standard deviation and count over a hundred chunks with 30 million rows,
archived as Delta tables. The first answer reads the newest chunk, from the query of the recall
process's engine to the merged answer. The full scan runs the same query over all files: in the
same Spark session (G1), or in DuckDB with all its threads (G1b). The condition is not on a key, so
clustering has no effect. All engines are warm, and the query is prepared, as after the first alert
of a recall process; answers are not cached.
"""

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

import duckdb
from pyspark.sql import SparkSession

from archiver.read import Reader
from benchmarks.fixtures import spark_session
from benchmarks.long_history import (
    CHUNK_COUNT,
    CHUNK_MICROS,
    END,
    SCHEMA,
    BenchmarkHistory,
    create_history,
    fail_on_relation,
    make_event,
    make_question,
)
from benchmarks.results import BenchmarkResult, make_result, rounded_median
from benchmarks.timing import time_noise_kernel
from recall.engines import LocalEngine, SparkEngine, Template, merge_partials
from recall.engines.answers import compute_answers
from recall.requests import Piece

_REPETITIONS = 5
_QUERIES_PER_REPETITION = 3  # each about another app; as many before the first repetition
_ROWS_PER_CHUNK = 300_000
_SPARK_CONF = {"spark.sql.codegen.wholeStage": "true", "spark.sql.shuffle.partitions": "1"}
_CONDITION = "p.v >= 0"
_FULL_SCAN = (
    "SELECT avg(p.v) AS mean, stddev(p.v) AS sd, count(*) AS n FROM {} p "
    f"WHERE p.app = '{{}}' AND {_CONDITION}"
)

# Runs a query about an app, and returns the seconds.
TimedQuery = Callable[[int], float]


def run() -> list[BenchmarkResult]:
    """Measure both engines and both full scans alternately."""
    noise: list[float] = []
    with create_history(_ROWS_PER_CHUNK) as history, spark_session(_SPARK_CONF) as session:
        queries = _prepare_queries(history, session)
        seconds: dict[str, list[float]] = {name: [] for name in queries}
        for query in queries.values():
            _time_query(query, first_app=0)
        for repetition in range(1, _REPETITIONS + 1):
            noise.append(time_noise_kernel())
            for name, query in queries.items():
                seconds[name].append(_time_query(query, repetition * _QUERIES_PER_REPETITION))
            latest = ", ".join(f"{name} {values[-1]:.4f} s" for name, values in seconds.items())
            print(f"{repetition}/{_REPETITIONS} {latest}", file=sys.stderr)
    return [
        _make_ratio(
            "G1",
            "time to first answer ÷ full scan, Spark",
            seconds["spark"],
            full_scan=seconds["spark_full"],
            noise=noise,
        ),
        _make_ratio(
            "G1b",
            "time to first answer, local engine ÷ full scan, DuckDB",
            seconds["local"],
            full_scan=seconds["duckdb_full"],
            noise=noise,
        ),
    ]


def _prepare_queries(history: BenchmarkHistory, session: SparkSession) -> dict[str, TimedQuery]:
    reader = Reader(history.root, [SCHEMA])
    spark = SparkEngine(session.newSession, reader, fail_on_relation)
    local = LocalEngine(reader)
    files = reader.local_paths("past")
    connection = duckdb.connect(":memory:")
    connection.execute("SET parquet_metadata_cache = true")
    template = Template(make_question(_CONDITION))
    return {
        "spark": partial(_time_first_answer, spark, template),
        "spark_full": partial(_time_full_scan_in_spark, session, files),
        "local": partial(_time_first_answer, local, template),
        "duckdb_full": partial(_time_full_scan_in_duckdb, connection, files),
    }


def _time_query(query: TimedQuery, first_app: int) -> float:
    """The median seconds over some apps."""
    apps = range(first_app, first_app + _QUERIES_PER_REPETITION)
    return statistics.median(map(query, apps))


def _make_ratio(
    goal: str,
    description: str,
    first_answer: list[float],
    full_scan: list[float],
    noise: list[float],
) -> BenchmarkResult:
    ratios = [first / full for first, full in zip(first_answer, full_scan, strict=True)]
    details = {
        "first_seconds": rounded_median(first_answer, 4),
        "full_scan_seconds": rounded_median(full_scan, 4),
        "million_rows": round(_ROWS_PER_CHUNK * CHUNK_COUNT / 1e6, 1),
    }
    return make_result(
        goal, description, ratios, target="≤ 1/30 = 0.033", details=details, noise=noise
    )


def _time_first_answer(engine: SparkEngine | LocalEngine, template: Template, app: int) -> float:
    started_at = time.perf_counter()
    piece = Piece(CHUNK_COUNT - 1, END - CHUNK_MICROS, END)
    event = make_event(app)
    eid = str(event.eid)
    partials = engine.compute_partial(template, [(event, piece)], {})
    merged_partial = merge_partials(template, None, partials.get(eid))
    if isinstance(engine, SparkEngine):
        merge = partial(engine.merge, template, event_tables={})
    else:
        merge = partial(engine.merge, template)
    answers = compute_answers(template, [(event, merged_partial)], merge)
    seconds = time.perf_counter() - started_at
    assert answers[eid][0]["n"] > 0
    return seconds


def _time_full_scan_in_spark(session: SparkSession, files: list[str], app: int) -> float:
    started_at = time.perf_counter()
    session.read.schema(SCHEMA.ddl()).parquet(*files).createOrReplaceTempView("past")
    (row,) = session.sql(_FULL_SCAN.format("past", f"a{app}")).collect()
    seconds = time.perf_counter() - started_at
    assert row.n > 0
    return seconds


def _time_full_scan_in_duckdb(
    connection: duckdb.DuckDBPyConnection, files: list[str], app: int
) -> float:
    started_at = time.perf_counter()
    file_list = ", ".join(map("'{}'".format, files))
    (row,) = connection.sql(_FULL_SCAN.format(f"read_parquet([{file_list}])", f"a{app}")).fetchall()
    seconds = time.perf_counter() - started_at
    assert row[2] > 0
    return seconds
