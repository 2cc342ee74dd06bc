"""G10: from the creation of an event to the row of its alert, 500 events a second, archive first.

Each run starts the real processes on a fresh workspace; a producer writes a file every 100 ms with
rows created in that time. *Filter*: from a row's creation to its alert's row. *Window*: from the
arrival of the file whose newest row closes the window to the alert's row. Runs of all set-ups are
interleaved.
"""

import json
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from psycopg import Connection

from benchmarks.results import BenchmarkResult, make_result, time_noise_kernel
from moirae.config import load_settings_from_environment
from moirae.runtime import database

_ROWS_PER_SECOND, _FILE_INTERVAL = 500, 0.1
_WARM_UP_SECONDS, _MEASURED_SECONDS = 20.0, 20.0
_REPETITIONS = 5
_WORKSPACE = """
home: .moirae
streams:
  cpu:
    columns: {ts: timestamp, host: string, n: bigint, cpu: double}
    time: ts
    id: [n]
    key: [host]
    lateness: 0s
    source: {files: landing/*.jsonl}
rules: [rules.yaml]
"""


@dataclass(frozen=True)
class LatencySetup:
    """How many rules of each kind run."""

    name: str
    filters: int
    windows: int


_SETUPS = (
    LatencySetup("one rule of each kind", 1, 1),
    LatencySetup("20 rules", 10, 10),
)


def run() -> list[BenchmarkResult]:
    """Measure all set-ups, interleaved."""
    noise: list[float] = []
    seen: dict[tuple[str, str, str], list[float]] = {}
    starts: list[float] = []
    for repetition in range(_REPETITIONS):
        for setup in _SETUPS:
            noise.append(time_noise_kernel())
            figures, start = _measure_setup(setup, repetition)
            starts.append(start)
            for key, value in figures.items():
                seen.setdefault((setup.name, *key), []).append(value)
            print(
                f"{repetition + 1}/{_REPETITIONS} {setup.name}: {_format_figures(figures)}",
                file=sys.stderr,
            )
    return _result_rows(seen, starts, noise)


def _result_rows(
    seen: dict[tuple[str, str, str], list[float]], starts: Sequence[float], noise: Sequence[float]
) -> list[BenchmarkResult]:
    targets = {"filter": "p99 ≤ 0.5 s", "window": "p99 ≤ 1.2 s"}
    rows = []
    for (setup, kind, quantile), values in seen.items():
        if quantile == "p99":
            beside = {"p50": round(statistics.median(seen[setup, kind, "p50"]), 3)}
            rows.append(
                make_result(
                    "G10", f"{kind}, {setup}: p99, seconds", values, targets[kind], beside, noise
                )
            )
    rows.append(
        make_result("G10", "start to first committed batch, seconds", starts, "≤ 60 s", {}, noise)
    )
    return rows


def _format_figures(figures: dict[tuple[str, str], float]) -> str:
    return ", ".join(
        f"{kind} {quantile} {value:.3f} s" for (kind, quantile), value in figures.items()
    )


def _measure_setup(setup: LatencySetup, seed: int) -> tuple[dict[tuple[str, str], float], float]:
    with _workspace(setup) as root:
        settings = load_settings_from_environment(root / "moirae.yaml")
        connection = database.connect_database(settings, "benchmark")
        process = subprocess.Popen(
            [sys.executable, "-m", "moirae", "up", "--workspace", str(settings.file)],
            stdout=subprocess.DEVNULL,
            stderr=(root / "log").open("wb"),
        )
        began = time.monotonic()
        try:
            arrivals, start = _produce(root / "landing", connection, seed, began)
            time.sleep(3)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
        since = arrivals[0][1] + timedelta(seconds=_WARM_UP_SECONDS)
        figures = {
            **_quantiles("filter", _filter_delays(connection, since)),
            **_quantiles("window", _window_delays(connection, since, arrivals)),
        }
        connection.close()
        return figures, start


def _quantiles(kind: str, delays: Sequence[float]) -> dict[tuple[str, str], float]:
    if len(delays) < 20:
        return {}
    cuts = statistics.quantiles(delays, n=100)
    return {(kind, "p50"): cuts[49], (kind, "p99"): cuts[98]}


def _produce(
    landing: Path, connection: Connection[Any], seed: int, began: float
) -> tuple[list[tuple[datetime, datetime]], float]:
    """Write files until the time is over; (newest row, arrival) of each, and seconds to the first
    committed batch.
    """
    rng, number, arrivals = random.Random(seed), 0, []
    landing.mkdir()
    start = first = 0.0
    due = time.monotonic()
    while not first or time.monotonic() < first + _WARM_UP_SECONDS + _MEASURED_SECONDS:
        number += 1
        now = datetime.now(UTC)
        rows = [
            _make_row(
                rng, now - timedelta(seconds=_FILE_INTERVAL * (1 - (i + 1) / 50)), number * 1000 + i
            )
            for i in range(50)
        ]
        hidden = landing / f".{number:08d}.jsonl"
        hidden.write_text("".join(json.dumps(row) + "\n" for row in rows))
        hidden.rename(landing / hidden.name[1:])
        if first:
            arrivals.append((now, datetime.now(UTC)))
        elif _has_committed(connection):
            first = time.monotonic()
            start = first - began
        due += _FILE_INTERVAL
        time.sleep(max(0.0, due - time.monotonic()))
    return arrivals, start


def _has_committed(connection: Connection[Any]) -> bool:
    row = connection.execute("SELECT EXISTS (SELECT FROM units WHERE done)").fetchone()
    return row is not None and bool(row[0])


def _make_row(rng: random.Random, ts: datetime, n: int) -> dict[str, Any]:
    text = ts.isoformat(timespec="microseconds").replace("+00:00", "Z")
    return {
        "ts": text,
        "host": f"h{rng.randrange(10)}",
        "n": n,
        "cpu": round(rng.uniform(0, 100), 2),
    }


def _filter_delays(connection: Connection[Any], since: datetime) -> list[float]:
    query = (
        "SELECT extract(epoch FROM raised_at - starts_at)::float8 FROM alerts "
        "WHERE rule LIKE '%%/Filter%%' AND starts_at > %s"
    )
    return [row[0] for row in connection.execute(query, (since,))]


def _window_delays(
    connection: Connection[Any], since: datetime, arrivals: Sequence[tuple[datetime, datetime]]
) -> list[float]:
    query = (
        "SELECT starts_at, raised_at FROM alerts WHERE rule LIKE '%%/Window%%' AND starts_at > %s"
    )
    delays = []
    for end, raised in connection.execute(query, (since,)):
        closing = next((arrival for newest, arrival in arrivals if newest >= end), None)
        if closing is not None:
            delays.append((raised - closing).total_seconds())
    return delays


def _rule_file(setup: LatencySetup) -> str:
    # Rules differ in shape, so that none is another with other numbers: those would be one query.
    filters = [
        f"""
  - alert: Filter{i}
    expr: >-
      SELECT host, n, ts, {" + ".join(["cpu"] * (i + 1))} AS scaled FROM cpu
      WHERE cpu > {99.6 - i / 100} AND n % 10 <> {i}
    key: [n]
    id: [n]
    keep_firing_for: 1s"""
        for i in range(setup.filters)
    ]
    windows = [
        f"""
  - alert: Window{i}
    expr: >-
      SELECT host, window.end AS ts, max(cpu) AS top, sum({" + ".join(["n % 7"] * (i + 1))}) AS s FROM cpu
      GROUP BY host, window(ts, '2 seconds') HAVING max(cpu) > {99.5 + i / 100}
    key: [host]
    keep_firing_for: 0s"""
        for i in range(setup.windows)
    ]
    return "groups:\n- name: bench\n  rules:" + "".join(filters + windows) + "\n"


@contextmanager
def _workspace(setup: LatencySetup) -> Iterator[Path]:
    root = Path(tempfile.mkdtemp(prefix="moirae-bench-"))
    root.chmod(0o755)
    (root / "moirae.yaml").write_text(_WORKSPACE)
    (root / "rules.yaml").write_text(_rule_file(setup))
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)
