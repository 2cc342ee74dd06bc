"""G1, G1b: time to the first answer of a norm (mean, deviation, count) ÷ a full scan for the same.

A hundred chunks with 30 million rows, archived as Delta tables. The first answer reads the newest
chunk, through the engine that the recall process uses, to the merged answer. Beside it the same
query over all files: in the same Spark session (G1), and in DuckDB with all its threads (G1b). Its
condition is on no key, so that clustering helps nobody. All are warm: the question is known, as a
recall process knows it after its first alert; no answer is kept.
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
    create_history,
    fail_on_relation,
    make_event,
    make_question,
)
from benchmarks.results import BenchmarkResult, make_result, time_noise_kernel
from recall.engines import LocalEngine, SparkEngine, Template, merge_partials
from recall.engines import compute_answers as answered
from recall.requests import Piece

_REPETITIONS = 5
# Asked so often in a repetition, each time about another app, and before the first one.
_QUESTIONS_PER_REPETITION = 3
_ROWS = 300_000
_CONF = {"spark.sql.codegen.wholeStage": "true", "spark.sql.shuffle.partitions": "1"}


def run() -> list[BenchmarkResult]:
    """Measure, interleaved."""
    noise: list[float] = []
    taken: dict[str, list[float]] = {"spark": [], "spark_full": [], "local": [], "duckdb_full": []}
    with create_history(_ROWS) as past, spark_session(_CONF) as session:
        reader = Reader(past.root, [SCHEMA])
        engine, local = (
            SparkEngine(session.newSession, reader, fail_on_relation),
            LocalEngine(reader),
        )
        files = reader.local_paths("past", None, None)
        duck = duckdb.connect(":memory:")
        duck.execute("SET parquet_metadata_cache = true")
        asked = Template(make_question("p.v >= 0"))
        kinds: dict[str, Callable[[int], float]] = {
            "spark": lambda app: _time_first_answer(engine, asked, app),
            "spark_full": lambda app: _time_full_scan_spark(session, files, app),
            "local": lambda app: _time_first_answer(local, asked, app),
            "duckdb_full": lambda app: _time_full_scan_duckdb(duck, files, app),
        }
        for ask in kinds.values():
            for app in range(_QUESTIONS_PER_REPETITION):
                ask(app)
        for repetition in range(_REPETITIONS):
            noise.append(time_noise_kernel())
            for name, ask in kinds.items():
                asks = [
                    ask((repetition + 1) * _QUESTIONS_PER_REPETITION + n)
                    for n in range(_QUESTIONS_PER_REPETITION)
                ]
                taken[name].append(statistics.median(asks))
            told = ", ".join(f"{name} {values[-1]:.4f} s" for name, values in taken.items())
            print(f"{repetition + 1}/{_REPETITIONS} {told}", file=sys.stderr)
    local_what = "time to first answer by the local reader ÷ DuckDB's full scan"
    return [
        _result_row(
            "G1",
            "time to first answer ÷ full scan, Spark",
            taken["spark"],
            taken["spark_full"],
            noise,
        ),
        _result_row("G1b", local_what, taken["local"], taken["duckdb_full"], noise),
    ]


def _result_row(
    goal: str, what: str, first: list[float], full: list[float], noise: list[float]
) -> BenchmarkResult:
    ratios = [a / b for a, b in zip(first, full, strict=True)]
    beside = {
        "first_seconds": round(statistics.median(first), 4),
        "full_scan_seconds": round(statistics.median(full), 4),
        "million_rows": round(_ROWS * CHUNK_COUNT / 1e6, 1),
    }
    return make_result(goal, what, ratios, "≤ 1/30 = 0.033", beside, noise)


def _time_first_answer(engine: SparkEngine | LocalEngine, template: Template, app: int) -> float:
    began = time.perf_counter()
    piece = Piece(CHUNK_COUNT - 1, END - CHUNK_MICROS, END)
    asked = make_event(app)
    found = engine.compute_partial(template, [(asked, piece)], {})
    held = [(asked, merge_partials(template, None, found.get(str(asked.eid))))]
    merge = (
        engine.merge if isinstance(engine, LocalEngine) else partial(engine.merge, event_tables={})
    )
    answer = answered(template, held, [merge])
    seconds = time.perf_counter() - began
    assert answer[str(asked.eid)][0]["n"] > 0
    return seconds


_FULL_SCAN = "SELECT avg(p.v) AS mean, stddev(p.v) AS sd, count(*) AS n FROM {} p WHERE p.app = '{}' AND p.v >= 0"


def _time_full_scan_spark(session: SparkSession, files: list[str], app: int) -> float:
    began = time.perf_counter()
    session.read.schema(SCHEMA.ddl()).parquet(*files).createOrReplaceTempView("past")
    (row,) = session.sql(_FULL_SCAN.format("past", f"a{app}")).collect()
    seconds = time.perf_counter() - began
    assert row.n > 0
    return seconds


def _time_full_scan_duckdb(duck: duckdb.DuckDBPyConnection, files: list[str], app: int) -> float:
    began = time.perf_counter()
    names = ", ".join(f"'{file}'" for file in files)
    found = duck.sql(_FULL_SCAN.format(f"read_parquet([{names}])", f"a{app}")).fetchall()
    seconds = time.perf_counter() - began
    assert found[0][2] > 0
    return seconds
