"""AQ1: a recall that needs all rows of history ÷ one evaluation of the whole range, by Spark.

The query has groups of groups, which chunks cannot answer one by one: it is evaluated over growing
ranges, by the real manager and ledger. Spark and the query are warm; answers are not cached.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from pyspark.sql import SparkSession

from archiver.read import Reader
from benchmarks.fixtures import spark_session
from benchmarks.long_history import (
    CHUNK_MICROS,
    SCHEMA,
    START,
    BenchmarkHistory,
    count_tasks,
    create_history,
    create_manager,
    fail_on_relation,
    make_event,
    make_question,
    run_manager_until,
)
from benchmarks.results import BenchmarkResult, make_result, rounded_median
from benchmarks.timing import measure_seconds, time_noise_kernel
from recall.engines import LocalEngine, SparkEngine, Template
from recall.engines.routing import EngineRouter, PartialCache
from recall.ledger import Ledger
from recall.requests import Piece, RecallEvent, RecallRequest, SqlQuestion
from recall.worker import RecallManager

_REPETITIONS = 3
_CHUNKS = 192
_ROWS_PER_CHUNK = 100_000
_END = START + _CHUNKS * CHUNK_MICROS
_SPARK_CONF = {"spark.sql.codegen.wholeStage": "true", "spark.sql.shuffle.partitions": "2"}
_SQL = (
    "SELECT x.app AS app, count(*) AS hosts, max(x.mean) AS top, min(x.sd) AS least FROM "
    "(SELECT app, host, avg(v) AS mean, stddev(v) AS sd FROM past WHERE v >= 1 GROUP BY app, host) x "
    "GROUP BY x.app"
)


def run() -> list[BenchmarkResult]:
    """Measure both alternately."""
    noise: list[float] = []
    ratios: list[float] = []
    first_ratios: list[float] = []
    full_seconds: list[float] = []
    with (
        create_history(_ROWS_PER_CHUNK, _CHUNKS) as history,
        spark_session(_SPARK_CONF) as session,
    ):
        engines = _create_engines(history, session)
        manager = create_manager(history.root, history.connection, [engines])
        evaluate = partial(_evaluate_once, engines)
        evaluate()
        _time_recall(history, manager)
        for repetition in range(_REPETITIONS):
            noise.append(time_noise_kernel())
            full = measure_seconds(evaluate)
            first, final = _time_recall(history, manager)
            full_seconds.append(full)
            ratios.append(final / full)
            first_ratios.append(first / final)
            print(
                f"{repetition + 1}/{_REPETITIONS} full {full:.2f} s, final {final:.2f} s, "
                f"first {first:.2f} s",
                file=sys.stderr,
            )
        manager.shut_down()
    details = {
        "full_seconds": rounded_median(full_seconds, 2),
        "million_rows": round(_ROWS_PER_CHUNK * _CHUNKS / 1e6, 1),
    }
    return [
        make_result(
            "AQ1",
            f"recall that needs all rows of {_CHUNKS} chunks: final ÷ one evaluation",
            ratios,
            target="≤ 2.2",
            details=details,
            noise=noise,
        ),
        make_result(
            "AQ1",
            f"recall that needs all rows of {_CHUNKS} chunks: first answer ÷ final",
            first_ratios,
            target="≤ 1/20 = 0.05",
            noise=noise,
        ),
    ]


def _create_engines(history: BenchmarkHistory, session: SparkSession) -> EngineRouter:
    reader = Reader(history.root, [SCHEMA])
    reader.refresh_present(())
    spark = SparkEngine(session.newSession, reader, fail_on_relation)
    return EngineRouter(spark, LocalEngine(reader), PartialCache(max_bytes=0))


def _make_question() -> SqlQuestion:
    return replace(make_question("true"), sql=_SQL, every=0.0)


def _make_event() -> RecallEvent:
    return replace(make_event(0), ts=_END)


def _evaluate_once(engines: EngineRouter) -> None:
    """The answer over the whole range."""
    template, event = Template(_make_question()), _make_event()
    partials = engines.compute_partial(template, [(event, Piece(0, None, _END))], {})
    answers = engines.compute_answers(template, [(event, partials[str(event.eid)])], {})
    assert answers[str(event.eid)]


def _time_recall(history: BenchmarkHistory, manager: RecallManager) -> tuple[float, float]:
    """Seconds until the first answer, and until the last one."""
    connection = history.connection
    connection.execute("TRUNCATE tasks CASCADE")
    request = RecallRequest("bench/r", "1", "whole", _make_question(), _make_event(), 0)
    Ledger(connection).add([request])

    def count(condition: str) -> Callable[[], bool]:
        return lambda: count_tasks(connection, condition) == 1

    first = measure_seconds(partial(run_manager_until, manager, count("first_at IS NOT NULL")))
    rest = measure_seconds(partial(run_manager_until, manager, count("state = 'done'")))
    return first, first + rest
