"""G1, G1b: time to the first answer of a norm (mean, deviation, count) ÷ a full scan for the same.

A hundred chunks with 30 million rows, archived as Delta tables. The first answer reads the newest chunk, through the
engine that the recall process uses, to the merged answer. Beside it the same query over all files: in the same Spark
session (G1), and in DuckDB with all its threads (G1b). Its condition is on no key, so that clustering helps nobody. All
are warm: the question is known, as a recall process knows it after its first alert; no answer is kept.
"""

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

import duckdb
from pyspark.sql import SparkSession

from archiver.reader import Reader
from benchmarks.history import CHUNKS, END, SCHEMA, SPAN, event, history, no_relations, questioned
from benchmarks.places import spark
from benchmarks.results import Result, kernel, result
from recall.engines.answers import answer as answered
from recall.engines.local import LocalEngine
from recall.engines.spark import SparkEngine
from recall.engines.template import Template, merged
from recall.request import Piece

_REPETITIONS = 5
# Asked so often in a repetition, each time about another app, and before the first one.
_ASKS = 3
_ROWS = 300_000
_CONF = {"spark.sql.codegen.wholeStage": "true", "spark.sql.shuffle.partitions": "1"}


def run() -> list[Result]:
    """Measure, interleaved."""
    noise: list[float] = []
    taken: dict[str, list[float]] = {"spark": [], "spark_full": [], "local": [], "duckdb_full": []}
    with history(_ROWS) as past, spark(_CONF) as session:
        reader = Reader(past.root, [SCHEMA])
        engine, local = SparkEngine(session.newSession, reader, no_relations), LocalEngine(reader)
        files = reader.files("past", None, None)
        duck = duckdb.connect(":memory:")
        duck.execute("SET parquet_metadata_cache = true")
        asked = Template(questioned("p.v >= 0"))
        kinds: dict[str, Callable[[int], float]] = {
            "spark": lambda app: _first(engine, asked, app),
            "spark_full": lambda app: _full_by_spark(session, files, app),
            "local": lambda app: _first(local, asked, app),
            "duckdb_full": lambda app: _full_by_duckdb(duck, files, app),
        }
        for ask in kinds.values():
            for app in range(_ASKS):
                ask(app)
        for repetition in range(_REPETITIONS):
            noise.append(kernel())
            for name, ask in kinds.items():
                asks = [ask((repetition + 1) * _ASKS + n) for n in range(_ASKS)]
                taken[name].append(statistics.median(asks))
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
        "million_rows": round(_ROWS * CHUNKS / 1e6, 1),
    }
    return result(goal, what, ratios, "≤ 1/30 = 0.033", beside, noise)


def _first(engine: SparkEngine | LocalEngine, template: Template, app: int) -> float:
    began = time.perf_counter()
    piece: Piece = (CHUNKS - 1, END - SPAN, END)
    asked = event(app)
    found = engine.partial(template, [(asked, piece)], {})
    held = [(asked, merged(template, None, found.get(str(asked.eid))))]
    merge = engine.merge if isinstance(engine, LocalEngine) else partial(engine.merge, own={})
    answer = answered(template, held, [merge])
    seconds = time.perf_counter() - began
    assert answer[str(asked.eid)][0]["n"] > 0
    return seconds


_FULL = "SELECT avg(p.v) AS mean, stddev(p.v) AS sd, count(*) AS n FROM {} p WHERE p.app = '{}' AND p.v >= 0"


def _full_by_spark(session: SparkSession, files: list[str], app: int) -> float:
    began = time.perf_counter()
    session.read.schema(SCHEMA.ddl()).parquet(*files).createOrReplaceTempView("past")
    (row,) = session.sql(_FULL.format("past", f"a{app}")).collect()
    seconds = time.perf_counter() - began
    assert row.n > 0
    return seconds


def _full_by_duckdb(duck: duckdb.DuckDBPyConnection, files: list[str], app: int) -> float:
    began = time.perf_counter()
    names = ", ".join(f"'{file}'" for file in files)
    found = duck.sql(_FULL.format(f"read_parquet([{names}])", f"a{app}")).fetchall()
    seconds = time.perf_counter() - began
    assert found[0][2] > 0
    return seconds
