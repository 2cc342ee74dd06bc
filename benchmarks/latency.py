"""G10: time from the creation of an event to the row of its alert, at 500 rows per second.

Each run starts the real processes on a new workspace; a file is written every 100 ms with the rows
created since the last one, and archived before rules are evaluated. *Filter*: from the creation of
a row to its alert's row. *Window*: from the arrival of the file whose newest row closes the window
to the alert's row. Runs of all setups alternate.
"""

import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from psycopg import Connection

from benchmarks.fixtures import moirae_up, temporary_workspace
from benchmarks.live_stream import CPU_WORKSPACE, CpuStream, repeat_at_file_interval
from benchmarks.results import BenchmarkResult, make_result, rounded_median
from benchmarks.timing import time_noise_kernel
from moirae.config import load_settings_from_environment
from moirae.runtime import database

_REPETITIONS = 5
_WARM_UP_SECONDS = 20.0
_MEASURED_SECONDS = 20.0
_SETTLE_SECONDS = 3.0  # for the alerts of the last rows
_MIN_DELAYS = 20  # fewer give no quantiles
_TARGETS = {"filter": "p99 ≤ 0.5 s", "window": "p99 ≤ 1.2 s"}


@dataclass(frozen=True)
class LatencySetup:
    """The number of filter rules and window rules that are active."""

    name: str
    filters: int
    windows: int


_SETUPS = (
    LatencySetup("one rule of each kind", filters=1, windows=1),
    LatencySetup("20 rules", filters=10, windows=10),
)


@dataclass(frozen=True)
class _Arrival:
    """When a file arrived, and the event time of its newest row."""

    newest_row: datetime
    arrived_at: datetime


@dataclass
class _ProducedFiles:
    """The files of a run since the first committed batch, and the seconds from start to that."""

    start_seconds: float = 0.0
    arrivals: list[_Arrival] = field(default_factory=list)


@dataclass(frozen=True)
class Quantiles:
    """Seconds from event to alert."""

    p50: float
    p99: float


def run() -> list[BenchmarkResult]:
    """Measure all setups alternately."""
    noise: list[float] = []
    start_seconds: list[float] = []
    samples: defaultdict[tuple[str, str], list[Quantiles]] = defaultdict(list)
    for repetition in range(_REPETITIONS):
        for setup in _SETUPS:
            noise.append(time_noise_kernel())
            quantiles_by_kind, seconds = measure_setup(setup, seed=repetition)
            start_seconds.append(seconds)
            print(
                f"{repetition + 1}/{_REPETITIONS} {setup.name}: start {seconds:.1f} s",
                file=sys.stderr,
            )
            for kind, quantiles in quantiles_by_kind.items():
                samples[kind, setup.name].append(quantiles)
                print(
                    f"  {kind} p50 {quantiles.p50:.3f} s, p99 {quantiles.p99:.3f} s",
                    file=sys.stderr,
                )
    return _make_results(samples, start_seconds, noise)


def _make_results(
    samples: Mapping[tuple[str, str], Sequence[Quantiles]],
    start_seconds: Sequence[float],
    noise: Sequence[float],
) -> list[BenchmarkResult]:
    results = []
    for (kind, setup), quantiles in samples.items():
        result = make_result(
            "G10",
            f"alert latency of a {kind}, {setup}: p99, seconds",
            [sample.p99 for sample in quantiles],
            target=_TARGETS[kind],
            details={"p50": rounded_median([sample.p50 for sample in quantiles], 3)},
            noise=noise,
        )
        results.append(result)
    start = make_result(
        "G10",
        "start to first committed batch, seconds",
        start_seconds,
        target="≤ 60 s",
        noise=noise,
    )
    return [*results, start]


def measure_setup(
    setup: LatencySetup, seed: int, engine: str = "auto", seconds: float = _MEASURED_SECONDS
) -> tuple[dict[str, Quantiles], float]:
    """Quantiles by kind of rule, and the seconds from start to the first committed batch."""
    with temporary_workspace(f"{CPU_WORKSPACE}engine: {engine}\n", _format_rules(setup)) as root:
        settings = load_settings_from_environment(root / "moirae.yaml")
        with database.connect_database(settings, "benchmark") as connection:
            with moirae_up(settings, root / "log"):
                files = _produce_files(root / "landing", connection, seed, seconds)
                time.sleep(_SETTLE_SECONDS)
            warm_at = files.arrivals[0].arrived_at + timedelta(seconds=_WARM_UP_SECONDS)
            delays_by_kind = {
                "filter": _filter_delays(connection, "%/Filter%", warm_at),
                "window": _window_delays(connection, warm_at, files.arrivals),
            }
    quantiles_by_kind = {
        kind: _to_quantiles(delays)
        for kind, delays in delays_by_kind.items()
        if len(delays) >= _MIN_DELAYS
    }
    return quantiles_by_kind, files.start_seconds


def measure_filter(rules: str, alert: str, seed: int) -> Quantiles:
    """Quantiles of the seconds from a row to the alert of one of the rules of a rule file."""
    with temporary_workspace(CPU_WORKSPACE, rules) as root:
        settings = load_settings_from_environment(root / "moirae.yaml")
        with database.connect_database(settings, "benchmark") as connection:
            with moirae_up(settings, root / "log"):
                files = _produce_files(root / "landing", connection, seed, _MEASURED_SECONDS)
                time.sleep(_SETTLE_SECONDS)
            warm_at = files.arrivals[0].arrived_at + timedelta(seconds=_WARM_UP_SECONDS)
            delays = _filter_delays(connection, f"%/{alert}", warm_at)
    assert len(delays) >= _MIN_DELAYS, f"{len(delays)} alerts give no quantiles"
    return _to_quantiles(delays)


def _to_quantiles(delays: Sequence[float]) -> Quantiles:
    percentiles = statistics.quantiles(delays, n=100)
    return Quantiles(p50=percentiles[49], p99=percentiles[98])


def _produce_files(
    landing: Path, connection: Connection[Any], seed: int, seconds: float
) -> _ProducedFiles:
    """Write files until the first batch is committed, then to warm up and for some seconds."""
    landing.mkdir()
    stream = CpuStream(landing, seed)
    files = _ProducedFiles()
    started_at = time.monotonic()

    def write(now: datetime) -> bool:
        stream.write_file(stream.make_rows(now))
        if files.start_seconds:
            files.arrivals.append(_Arrival(newest_row=now, arrived_at=datetime.now(UTC)))
        elif _has_committed(connection):
            files.start_seconds = time.monotonic() - started_at
        end = started_at + files.start_seconds + _WARM_UP_SECONDS + seconds
        return not files.start_seconds or time.monotonic() < end

    repeat_at_file_interval(write)
    return files


def _has_committed(connection: Connection[Any]) -> bool:
    row = connection.execute("SELECT EXISTS (SELECT FROM units WHERE done)").fetchone()
    return row is not None and bool(row[0])


def _filter_delays(connection: Connection[Any], rules: str, since: datetime) -> list[float]:
    """Seconds from each row to its alert; `rules`: a pattern of LIKE."""
    rows = connection.execute(
        "SELECT extract(epoch FROM raised_at - starts_at)::float8 FROM alerts "
        "WHERE rule LIKE %s AND starts_at > %s AND raised_at IS NOT NULL",
        (rules, since),
    )
    return [row[0] for row in rows]


def _window_delays(
    connection: Connection[Any], since: datetime, arrivals: Sequence[_Arrival]
) -> list[float]:
    """Seconds from the arrival of the file that closes each window to its alert."""
    rows = connection.execute(
        "SELECT starts_at, raised_at FROM alerts WHERE rule LIKE '%%/Window%%' AND starts_at > %s",
        (since,),
    )
    delays = []
    for window_end, raised_at in rows:
        for arrival in arrivals:
            if arrival.newest_row >= window_end:
                delays.append((raised_at - arrival.arrived_at).total_seconds())
                break
    return delays


def _format_rules(setup: LatencySetup) -> str:
    """The rule file. Each rule has a shape of its own: rules of one shape would share a query."""
    rules = []
    for i in range(setup.filters):
        rules.append(f"""
  - alert: Filter{i}
    expr: >-
      SELECT host, n, ts, {" + ".join(["cpu"] * (i + 1))} AS scaled FROM cpu
      WHERE cpu > {99.6 - i / 100} AND n % 10 <> {i}
    key: [n]
    id: [n]
    keep_firing_for: 1s""")
    for i in range(setup.windows):
        rules.append(f"""
  - alert: Window{i}
    expr: >-
      SELECT host, window.end AS ts, max(cpu) AS top, sum({" + ".join(["n % 7"] * (i + 1))}) AS s
      FROM cpu GROUP BY host, window(ts, '2 seconds') HAVING max(cpu) > {99.5 + i / 100}
    key: [host]
    keep_firing_for: 0s""")
    return "groups:\n- name: bench\n  rules:" + "".join(rules) + "\n"
