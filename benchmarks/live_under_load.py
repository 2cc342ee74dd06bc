"""G9: live latency while recalls run at full load, compared with an idle recall process.

Also the time to the first answers of ten simultaneous alerts. The real processes run on one
workspace: a stream of 500 rows per second with a filter, and an archived stream of a million rows.
Each run, after a warm-up, measures latency without recalls; then raises ten alerts at once (each
with a norm from history and a similarity recall); then measures latency while more queries are
queued than can be executed, all in Spark.
"""

import random
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from psycopg import Connection

from archiver.times import to_micros
from benchmarks.fixtures import moirae_up, temporary_workspace
from benchmarks.live_latency import MEASURED_RULE, WORKSPACE, LiveProducer, measure_p99, start_live
from benchmarks.live_stream import Row
from benchmarks.long_history import ask_history
from benchmarks.results import BenchmarkResult, make_result, rounded_median
from benchmarks.timing import time_noise_kernel
from moirae.config import load_settings_from_environment
from moirae.runtime import database
from recall.ledger import Ledger
from recall.requests import RecallEvent, RecallRequest, SqlQuestion

_REPETITIONS = 3
WARM_UP_SECONDS = 20.0
_MEASURED_SECONDS = 90.0  # about 900 alerts, of which nine are above p99
_FIRST_ANSWERS_SECONDS = 10.0  # time that the ten alerts' recalls have for their first answers
_LOAD_START_SECONDS = 5.0  # from adding the load until it is measured
_ARCHIVED_ROWS = 1_000_000
_ARCHIVED_ROW_INTERVAL = 1.7  # seconds of event time
_ARCHIVED_DAYS = 20  # age of the oldest archived row
_LOAD_QUERIES = 1_200
_RECALLS_OF_TEN_ALERTS = 20
_RULES = (
    MEASURED_RULE
    + """\
  - alert: Ten
    expr: SELECT host, n, ts, cpu FROM cpu WHERE cpu > 101
    key: [n]
    id: [n]
    keep_firing_for: 1s
    context:
      tags: {sql: SELECT DISTINCT n % 50 AS tag FROM cpu WHERE host = event.host, within: 2s}
    recall:
      norm:
        sql: >-
          SELECT avg(h.v) AS mean, stddev(h.v) AS sd, count(*) AS n
          FROM past h WHERE h.host = event.host
      similar: {similar: {k: 10}}
"""
)

_FIRST_ANSWER_SECONDS = """
SELECT extract(epoch FROM t.first_at - a.raised_at)::float8
FROM tasks t JOIN alerts a ON a.eid = t.eid
"""


class _TenAlerts:
    """On request, makes ten rows ones for which a rule with recalls fires."""

    def __init__(self) -> None:
        self.requested = threading.Event()
        self._are_written = False

    def __call__(self, rows: list[Row]) -> None:
        if self.requested.is_set() and not self._are_written:
            self._are_written = True
            for host, row in enumerate(rows[-10:]):
                row |= {"cpu": 150.0, "host": f"h{host}"}


@dataclass(frozen=True)
class _RunFigures:
    """Seconds: p99 of live latency, and the first answers of ten alerts."""

    idle_p99: float
    loaded_p99: float
    first_answers: list[float]


def run() -> list[BenchmarkResult]:
    """Measure all runs, one after another."""
    noise: list[float] = []
    runs: list[_RunFigures] = []
    for repetition in range(_REPETITIONS):
        noise.append(time_noise_kernel())
        figures = _measure_run(seed=repetition)
        runs.append(figures)
        print(
            f"{repetition + 1}/{_REPETITIONS} idle p99 {figures.idle_p99:.3f} s, "
            f"loaded p99 {figures.loaded_p99:.3f} s, "
            f"slowest first answer of ten alerts {max(figures.first_answers):.3f} s",
            file=sys.stderr,
        )
    median_answers = [statistics.median(figures.first_answers) for figures in runs]
    return [
        make_result(
            "G9",
            "live p99 latency under full recall load ÷ idle",
            [figures.loaded_p99 / figures.idle_p99 for figures in runs],
            target="≤ 1.1",
            details={
                "idle_p99_s": rounded_median([figures.idle_p99 for figures in runs], 3),
                "loaded_p99_s": rounded_median([figures.loaded_p99 for figures in runs], 3),
            },
            noise=noise,
        ),
        make_result(
            "G9",
            f"ten simultaneous alerts: slowest first answer of {_RECALLS_OF_TEN_ALERTS} recalls, "
            "seconds",
            [max(figures.first_answers) for figures in runs],
            target="–",
            details={"median_s": rounded_median(median_answers, 3)},
            noise=noise,
        ),
    ]


def _measure_run(seed: int) -> _RunFigures:
    with create_archived_workspace(seed) as root:
        settings = load_settings_from_environment(root / "moirae.yaml")
        ten_alerts = _TenAlerts()
        producer = LiveProducer(root / "landing" / "cpu", seed, ten_alerts)
        with (
            database.connect_database(settings, "benchmark") as connection,
            moirae_up(settings, root / "log"),
        ):
            try:
                return _measure_phases(connection, producer, ten_alerts)
            finally:
                producer.stop()


def _measure_phases(
    connection: Connection[Any], producer: LiveProducer, ten_alerts: _TenAlerts
) -> _RunFigures:
    start_live(connection, producer)
    time.sleep(WARM_UP_SECONDS)
    idle_p99 = measure_p99(connection, "bench/High", _MEASURED_SECONDS)
    ten_alerts.requested.set()
    time.sleep(_FIRST_ANSWERS_SECONDS)
    first_answers = []
    for (seconds,) in connection.execute(_FIRST_ANSWER_SECONDS):
        if seconds is not None:
            first_answers.append(float(seconds))
    if len(first_answers) != _RECALLS_OF_TEN_ALERTS:
        raise AssertionError(
            f"{len(first_answers)} of {_RECALLS_OF_TEN_ALERTS} recalls have a first answer"
        )
    _add_load(connection)
    time.sleep(_LOAD_START_SECONDS)
    loaded_p99 = measure_p99(connection, "bench/High", _MEASURED_SECONDS)
    row = connection.execute(
        "SELECT count(*) FROM tasks WHERE state IN ('waiting', 'running')"
    ).fetchone()
    assert row is not None
    assert row[0] > 0, "all recalls ended before the measurement: the load was not full"
    return _RunFigures(idle_p99=idle_p99, loaded_p99=loaded_p99, first_answers=first_answers)


def _add_load(connection: Connection[Any]) -> None:
    """Add more recalls than can be executed, each with a query that only Spark supports."""
    now = to_micros(datetime.now(UTC))
    requests = []
    for number in range(_LOAD_QUERIES):
        request = RecallRequest(
            rule="bench/Load",
            version="1",
            recall=f"load{number}",
            question=_make_load_question(number),
            event=RecallEvent(uuid4(), now, key={}, attributes={"host": "h1"}),
            level=0,
        )
        requests.append(request)
    ledger = Ledger(connection)
    with connection.transaction():
        ledger.add(requests)


def _make_load_question(number: int) -> SqlQuestion:
    return ask_history(
        "SELECT avg(abs(h.v)) AS mean, count(*) AS n FROM past h "
        f"WHERE h.v > {number % 90} AND length(h.host) > 1",
        attribute="host",
    )


@contextmanager
def create_archived_workspace(seed: int) -> Iterator[Path]:
    """A workspace whose archived rows are still in its landing folder."""
    with temporary_workspace(WORKSPACE, _RULES) as root:
        for name in ("cpu", "past"):
            (root / "landing" / name).mkdir(parents=True)
        rng = random.Random(seed)
        start = datetime.now(UTC) - timedelta(days=_ARCHIVED_DAYS)
        with (root / "landing" / "past" / "all.jsonl").open("w") as file:
            for number in range(_ARCHIVED_ROWS):
                ts = start + timedelta(seconds=number * _ARCHIVED_ROW_INTERVAL)
                host = rng.randrange(10)
                value = rng.uniform(0, 100)
                file.write(f'{{"ts": "{ts.isoformat()}", "host": "h{host}", "v": {value:.2f}}}\n')
        yield root
