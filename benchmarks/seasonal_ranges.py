"""AQ2: bytes that a recall of the same hour of twelve weeks reads ÷ one of all of them.

By the real manager, ledger and reader, in this process, whose calls to read are counted by the kernel.
The log of the archive is loaded before; engines are new, and nothing is cached.
"""

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

from archiver.read import Reader
from benchmarks.long_history import (
    CHUNK_MICROS,
    SCHEMA,
    START,
    BenchmarkHistory,
    count_tasks,
    create_history,
    create_manager,
    fail_on_relation,
    fail_on_spark,
    make_event,
    make_question,
    run_manager_until,
)
from benchmarks.results import BenchmarkResult, make_result, rounded_median
from benchmarks.timing import measure_seconds, time_noise_kernel
from recall.engines import LocalEngine, SparkEngine
from recall.engines.routing import EngineRouter, PartialCache
from recall.history_ranges import Season
from recall.ledger import Ledger
from recall.requests import RecallRequest, SqlQuestion

_REPETITIONS = 3
_WEEKS = 12
_CHUNKS = _WEEKS * 7 * 24
_ROWS_PER_CHUNK = 5_000
_RANGE = _CHUNKS * CHUNK_MICROS
_END = START + _RANGE


def run() -> list[BenchmarkResult]:
    """Measure both alternately, the one that reads less first."""
    noise: list[float] = []
    ratios: list[float] = []
    seconds: list[float] = []
    question = replace(make_question("true"), range=_RANGE, every=0.0)
    seasonal = replace(question, season=Season("hour_of_week", "UTC").to_json())
    with create_history(_ROWS_PER_CHUNK, _CHUNKS) as history:
        for repetition in range(_REPETITIONS):
            noise.append(time_noise_kernel())
            read, took = _measure(history, seasonal)
            read_all, took_all = _measure(history, question)
            ratios.append(read / read_all)
            seconds.append(took / took_all)
            print(
                f"{repetition + 1}/{_REPETITIONS} {read / 1e6:.2f} MB of {read_all / 1e6:.1f} MB, "
                f"{took:.2f} of {took_all:.2f} s",
                file=sys.stderr,
            )
    return [
        make_result(
            "AQ2",
            f"bytes read for the same hour of {_WEEKS} weeks ÷ for all of their {_CHUNKS:,} chunks",
            ratios,
            target="≤ 1/20 = 0.05",
            details={"seconds": rounded_median(seconds, 3)},
            noise=noise,
        )
    ]


def _measure(history: BenchmarkHistory, question: SqlQuestion) -> tuple[int, float]:
    """Bytes and seconds until the final answer."""
    reader = Reader(history.root, [SCHEMA])
    reader.refresh_present(())
    reader.local_paths(SCHEMA.name)
    spark = SparkEngine(fail_on_spark, reader, fail_on_relation)
    engines = EngineRouter(spark, LocalEngine(reader), PartialCache(max_bytes=0))
    manager = create_manager(history.root, history.connection, [engines])
    connection = history.connection
    connection.execute("TRUNCATE tasks CASCADE")
    request = RecallRequest("bench/r", "1", "norm", question, replace(make_event(0), ts=_END), 0)
    Ledger(connection).add([request])
    before = _count_read_bytes()
    is_done = partial(_is_done, history)
    seconds = measure_seconds(partial(run_manager_until, manager, is_done))
    read = _count_read_bytes() - before
    manager.shut_down()
    return read, seconds


def _is_done(history: BenchmarkHistory) -> bool:
    return count_tasks(history.connection, "state = 'done'") == 1


def _count_read_bytes() -> int:
    """What this process has read so far, from files and sockets."""
    for line in Path("/proc/self/io").read_text().splitlines():
        name, _, value = line.partition(": ")
        if name == "rchar":
            return int(value)
    raise AssertionError("the kernel counts no bytes")
