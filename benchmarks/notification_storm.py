"""NT3: live latency beside a storm of notifications.

One `moirae up` whose rule raises about ten alerts a second. Minutes without a storm alternate with
minutes in which 10,000 other alerts are stored, each a group of its own; the order of the two changes
from pair to pair: what the process accumulates counts for both. *Event → alert*: from the
creation of an event to the row of its alert.
"""

import statistics
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import sql
from archiver.threads import start_daemon
from benchmarks.fixtures import moirae_up, temporary_folder, temporary_workspace
from benchmarks.live_stream import CPU_WORKSPACE, HIGH_RULES, CpuStream, repeat_at_file_interval
from benchmarks.notifications import make_storm_alert
from benchmarks.results import BenchmarkResult, make_result, rounded_median
from benchmarks.timing import time_noise_kernel
from benchmarks.webhook import running_webhook
from moirae.config import Settings, load_settings_from_environment
from moirae.runtime import database
from sql.alerts import AlertGateway

_REPETITIONS = 3
_WINDOW = timedelta(seconds=60)
_PAUSE = timedelta(seconds=5)  # after a storm, and at first once alerts are stored as rows come
_START_TIMEOUT = 600.0  # seconds until alerts are stored as rows come
_STORM = 10_000  # alerts in a window
_STEP = 0.05  # seconds between alerts of the storm that are stored together
_NOTIFICATIONS = """
receivers: {{hook: {{webhook: "{url}"}}}}
routes: [{{receiver: hook, group_by: ['...'], group_wait: 0s}}]
"""
_IS_CURRENT = (
    "SELECT EXISTS (SELECT FROM alerts WHERE rule = 'bench/High' AND NOT past "
    "AND raised_at - starts_at < interval '5 s')"
)
_LATENCIES = (
    "SELECT extract(epoch FROM raised_at - starts_at)::float8 FROM alerts "
    "WHERE rule = 'bench/High' AND NOT past AND starts_at >= %s AND starts_at < %s"
)


def run() -> list[BenchmarkResult]:
    """Measure pairs of windows of one run."""
    noise = [time_noise_kernel()]
    ratios: list[float] = []
    seconds: list[float] = []
    with temporary_folder() as folder, running_webhook(folder) as webhook:
        workspace = CPU_WORKSPACE + _NOTIFICATIONS.format(url=webhook.url)
        with temporary_workspace(workspace, HIGH_RULES) as root:
            (root / "landing").mkdir()
            settings = load_settings_from_environment(root / "moirae.yaml")
            with (
                database.connect_database(settings, "benchmark") as connection,
                moirae_up(settings, root / "log"),
                _producing(CpuStream(root / "landing", seed=0)),
            ):
                _wait_until_current(connection)
                for repetition in range(_REPETITIONS):
                    time.sleep(_PAUSE.total_seconds())
                    quiet = _measure(connection) if repetition % 2 == 0 else None
                    with _storming(settings, repetition):
                        stormy = _measure(connection)
                    quiet = quiet or _measure(connection)
                    noise.append(time_noise_kernel())
                    ratios.append(stormy / quiet)
                    seconds.append(stormy)
                    print(
                        f"NT3 {repetition + 1}/{_REPETITIONS}: p99 {quiet:.3f} s, beside a storm "
                        f"{stormy:.3f} s",
                        file=sys.stderr,
                    )
    return [
        make_result(
            "NT3",
            "p99 of event → alert beside a storm of 10,000 alerts ÷ without",
            ratios,
            target="≤ 1.1",
            details={"p99 beside a storm, seconds": rounded_median(seconds, 3)},
            noise=noise,
        )
    ]


@contextmanager
def _producing(stream: CpuStream) -> Iterator[None]:
    """Write files until the block ends."""
    has_ended = threading.Event()

    def write(now: datetime) -> bool:
        stream.write_file(stream.make_rows(now))
        return not has_ended.is_set()

    thread = start_daemon(lambda: repeat_at_file_interval(write), "rows")
    try:
        yield
    finally:
        has_ended.set()
        thread.join(10)


def _wait_until_current(connection: sql.Connection) -> None:
    deadline = time.monotonic() + _START_TIMEOUT
    while time.monotonic() < deadline:
        row = connection.execute(_IS_CURRENT).fetchone()
        if row is not None and row[0]:
            return
        time.sleep(0.5)
    raise RuntimeError(f"no alert is stored as rows come within {_START_TIMEOUT:g} s")


def _measure(connection: sql.Connection) -> float:
    """The p99 of a window, in seconds."""
    begins = datetime.now(UTC)
    time.sleep((_WINDOW + _PAUSE).total_seconds())  # rows at its end are evaluated later
    rows = connection.execute(_LATENCIES, (begins, begins + _WINDOW)).fetchall()
    latencies: list[float] = [row[0] for row in rows]
    return statistics.quantiles(latencies, n=100)[98]


@contextmanager
def _storming(settings: Settings, repetition: int) -> Iterator[None]:
    """Store the alerts of a storm within a window."""

    def store() -> None:
        steps = round(_WINDOW.total_seconds() / _STEP)
        first = repetition * _STORM
        stored = 0
        begins = time.monotonic()
        with database.connect_database(settings, "storm") as connection:
            gateway = AlertGateway(connection)
            for step in range(1, steps + 1):
                due = _STORM * step // steps
                gateway.put([make_storm_alert(first + number) for number in range(stored, due)])
                stored = due
                time.sleep(max(0.0, begins + step * _STEP - time.monotonic()))

    thread = start_daemon(store, "storm")
    yield
    thread.join(60)
