"""BT4: live latency while back-tests run one after the other, compared with none.

The real processes run on one workspace: a stream of 500 rows per second with a filter, and an
archived stream of a million rows. Back-tests are started as a client of the server does, for rules
that only Spark evaluates, so that the child of the recall process is always busy.
"""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from psycopg import Connection

from benchmarks.fixtures import moirae_up
from benchmarks.live_latency import LiveProducer, measure_p99, start_live, wait_until
from benchmarks.live_under_load import WARM_UP_SECONDS, create_archived_workspace
from benchmarks.results import BenchmarkResult, make_result, rounded_median
from benchmarks.timing import time_noise_kernel
from moirae.config import Settings, load_settings_from_environment
from moirae.runtime import database
from sql.processes import SignalGateway
from sql.rules import BacktestGateway

_REPETITIONS = 3
_MEASURED_SECONDS = 60.0  # about 600 alerts, of which six are above p99
_OPEN_BACKTESTS = 4  # that run or wait
_POLL_INTERVAL = 0.5  # seconds
_RULE = """
groups:
- name: load
  rules:
  - alert: Load
    expr: SELECT host, ts, v FROM past WHERE abs(v) > 99 AND length(host) > {length}
    key: [host]
"""
_ONE_IS_DONE = "SELECT EXISTS (SELECT FROM backtests WHERE state = 'done')"


def run() -> list[BenchmarkResult]:
    """Measure all runs, one after another."""
    noise: list[float] = []
    idle: list[float] = []
    loaded: list[float] = []
    for repetition in range(_REPETITIONS):
        noise.append(time_noise_kernel())
        with create_archived_workspace(repetition) as root:
            settings = load_settings_from_environment(root / "moirae.yaml")
            producer = LiveProducer(root / "landing" / "cpu", repetition, lambda rows: None)
            with (
                database.connect_database(settings, "benchmark") as connection,
                moirae_up(settings, root / "log"),
            ):
                try:
                    idle_p99, loaded_p99, count = _measure_phases(settings, connection, producer)
                finally:
                    producer.stop()
        idle.append(idle_p99)
        loaded.append(loaded_p99)
        print(
            f"BT4 idle p99 {idle_p99:.3f} s, beside {count} back-tests {loaded_p99:.3f} s",
            file=sys.stderr,
        )
    ratios = [busy / quiet for quiet, busy in zip(idle, loaded, strict=True)]
    details = {"idle_p99_s": rounded_median(idle, 3), "loaded_p99_s": rounded_median(loaded, 3)}
    return [
        make_result(
            "BT4",
            "live p99 latency while back-tests run ÷ without",
            ratios,
            target="≤ 1.1",
            details=details,
            noise=noise,
        )
    ]


def _measure_phases(
    settings: Settings, connection: Connection[Any], producer: LiveProducer
) -> tuple[float, float, int]:
    """Seconds without and with back-tests, and how many were done."""
    start_live(connection, producer)
    time.sleep(WARM_UP_SECONDS)
    idle_p99 = measure_p99(connection, "bench/High", _MEASURED_SECONDS)
    with _running_backtests(settings):
        wait_until(connection, _ONE_IS_DONE)  # the child and its session have started
        loaded_p99 = measure_p99(connection, "bench/High", _MEASURED_SECONDS)
    states = connection.execute("SELECT state, count(*) FROM backtests GROUP BY 1").fetchall()
    counts = dict(states)
    assert "failed" not in counts, counts
    return idle_p99, loaded_p99, counts["done"]


@contextmanager
def _running_backtests(settings: Settings) -> Iterator[None]:
    """Keep some back-tests open for the duration of a block."""
    ended = threading.Event()

    def keep_open() -> None:
        started = 0
        with database.connect_database(settings, "back-tests of a client") as connection:
            gateway, signals = BacktestGateway(connection), SignalGateway(connection)
            while not ended.wait(_POLL_INTERVAL):
                while gateway.count_open() < _OPEN_BACKTESTS:
                    content = _RULE.format(length=-started)
                    request = {
                        "files": [{"name": "load.yaml", "content": content}],
                        "base": [],
                        "last": "30d",
                    }
                    gateway.add(uuid4(), "benchmark", request)
                    signals.notify_backtests()
                    started += 1

    thread = threading.Thread(target=keep_open, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
