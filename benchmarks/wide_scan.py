"""S6: a wide scan by tasks on executors, compared with the same scan in the driver.

The query takes mean, standard deviation and count over a hundred chunks with ten million rows, as
that of G1. Tasks of two cores run DuckDB over the pinned files and return partial answers. The
driver runs DuckDB on one thread, as a recall process does. Both are warm and alternate.
"""

import sys
from functools import partial

from archiver.executors import SparkJobs
from archiver.read import Reader
from benchmarks.fixtures import spark_session
from benchmarks.long_history import (
    CHUNK_COUNT,
    END,
    SCHEMA,
    create_history,
    make_event,
    make_question,
)
from benchmarks.results import BenchmarkResult, make_result, rounded_median
from benchmarks.timing import measure_seconds, time_noise_kernel
from recall.engines import LocalEngine, Template, WideScanEngine
from recall.requests import Piece
from recall.statements import WORKER_DAEMON

_REPETITIONS = 5
_ROWS_PER_CHUNK = 100_000
_TIME_LIMIT = 600.0  # seconds


def run() -> list[BenchmarkResult]:
    """Measure both engines alternately."""
    noise: list[float] = []
    seconds: dict[str, list[float]] = {"tasks": [], "driver": []}
    row_count = _ROWS_PER_CHUNK * CHUNK_COUNT
    with (
        create_history(_ROWS_PER_CHUNK) as history,
        spark_session({"spark.python.daemon.module": WORKER_DAEMON}) as session,
    ):
        reader = Reader(history.root, [SCHEMA])
        jobs = SparkJobs(session.sparkContext)
        engines: dict[str, WideScanEngine | LocalEngine] = {
            "tasks": WideScanEngine(lambda: jobs, reader, _TIME_LIMIT),
            "driver": LocalEngine(reader),
        }
        template = Template(make_question("p.v >= 0"))
        for engine in engines.values():
            _scan(engine, template, app=0)
        for repetition in range(1, _REPETITIONS + 1):
            noise.append(time_noise_kernel())
            for name, engine in engines.items():
                scan = partial(_scan, engine, template, repetition)
                seconds[name].append(measure_seconds(scan))
                print(
                    f"{repetition}/{_REPETITIONS} {name} {seconds[name][-1]:.2f} s",
                    file=sys.stderr,
                )
    ratios = [
        driver / tasks for driver, tasks in zip(seconds["driver"], seconds["tasks"], strict=True)
    ]
    return [
        make_result(
            "S6",
            "wide scan on local[2]: rows/s by tasks on executors ÷ in the driver",
            ratios,
            target="–",
            details={
                f"{name}_rows_s": rounded_median([row_count / value for value in values], 0)
                for name, values in seconds.items()
            },
            noise=noise,
        )
    ]


def _scan(engine: WideScanEngine | LocalEngine, template: Template, app: int) -> None:
    event = make_event(app)
    partials = engine.compute_partial(template, [(event, Piece(0, None, END))], {})
    assert len(partials[str(event.eid)]) == 1
