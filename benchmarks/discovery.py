"""D1: live work beside a folder of many archived files ÷ beside one of few. D2: its cores.

The real processes run on new workspaces, whose files are archived first. Then 500 rows a second
come in 10 files a second, with two rules. Measured are the p99 from the creation of a row to its
alert, and the processor time of the JVM (D1) and of all processes (D2).
"""

import json
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from psycopg import Connection

from benchmarks.fixtures import (
    moirae_up,
    processor_seconds,
    temporary_workspace,
    workspace_processes,
)
from benchmarks.live_latency import LiveProducer, measure_p99, wait_until
from benchmarks.live_stream import CPU_WORKSPACE
from benchmarks.results import BenchmarkResult, make_result, rounded_median
from benchmarks.timing import time_noise_kernel
from moirae.config import Settings, load_settings_from_environment
from moirae.runtime import database

_REPETITIONS = 3
_FEW_FILES = 100
_MANY_FILES = 300_000
_READ_TIMEOUT = 3_600.0  # seconds, for the files that are there at the start
_WARM_UP_SECONDS = 30.0
_MEASURED_SECONDS = 30.0
_FIRST_AGE = timedelta(days=20)
_RULES = """
groups:
- name: bench
  rules:
  - alert: High
    expr: SELECT host, n, ts, cpu FROM cpu WHERE cpu > 98
    key: [n]
    id: [n]
    keep_firing_for: 1s
  - alert: Window
    expr: >-
      SELECT host, window.end AS ts, max(cpu) AS top
      FROM cpu GROUP BY host, window(ts, '2 seconds') HAVING max(cpu) > 99.9
    key: [host]
    keep_firing_for: 0s
"""


class LiveFigures(NamedTuple):
    """Seconds from a row to its alert, and processor seconds a second."""

    p99: float
    jvm_cores: float
    cores: float


def run() -> list[BenchmarkResult]:
    """Measure both folders alternately."""
    noise: list[float] = []
    few: list[LiveFigures] = []
    many: list[LiveFigures] = []
    for repetition in range(_REPETITIONS):
        for file_count, runs in ((_FEW_FILES, few), (_MANY_FILES, many)):
            noise.append(time_noise_kernel())
            runs.append(measure_live(file_count, seed=repetition))
            print(
                f"{repetition + 1}/{_REPETITIONS} {file_count:,} files: {runs[-1]}", file=sys.stderr
            )
    pairs = list(zip(many, few, strict=True))
    subject = f"live work beside {_MANY_FILES:,} archived files ÷ beside {_FEW_FILES}"
    return [
        make_result(
            "D1",
            f"{subject}: p99 from row to alert",
            [a.p99 / b.p99 for a, b in pairs],
            target="≤ 1.2",
            details={"few, seconds": rounded_median([figures.p99 for figures in few], 3)},
            noise=noise,
        ),
        make_result(
            "D1",
            f"{subject}: cores of the JVM",
            [a.jvm_cores / b.jvm_cores for a, b in pairs],
            target="≤ 1.2",
            details={"few, cores": rounded_median([figures.jvm_cores for figures in few], 3)},
            noise=noise,
        ),
        make_result(
            "D2",
            "cores of all processes at 500 rows/s in 10 files/s, 2 rules",
            [figures.cores for figures in few],
            target="≤ 0.6",
            details={"of these the JVM": statistics.median(figures.jvm_cores for figures in few)},
            noise=noise,
        ),
    ]


def measure_live(file_count: int, seed: int) -> LiveFigures:
    """Live work beside so many files that are archived."""
    with _create_workspace(file_count) as root:
        settings = load_settings_from_environment(root / "moirae.yaml")
        producer = LiveProducer(root / "landing", seed, lambda _: None)
        with (
            database.connect_database(settings, "benchmark") as connection,
            moirae_up(settings, root / "log"),
        ):
            _wait_for_files(connection, file_count)
            producer.start()
            try:
                time.sleep(_WARM_UP_SECONDS)
                return _measure(connection, settings)
            finally:
                producer.stop()


def _measure(connection: Connection[Any], settings: Settings) -> LiveFigures:
    processes = workspace_processes(settings)
    jvms = [process for process in processes if process.name() == "java"]
    before = processor_seconds(processes)
    jvm_before = processor_seconds(jvms)
    started_at = time.monotonic()
    p99 = measure_p99(connection, "bench/High", _MEASURED_SECONDS)
    elapsed = time.monotonic() - started_at
    jvm_cores = (processor_seconds(jvms) - jvm_before) / elapsed
    return LiveFigures(p99, jvm_cores, (processor_seconds(processes) - before) / elapsed)


def _wait_for_files(connection: Connection[Any], count: int) -> None:
    condition = f"SELECT count(*) >= {count} FROM units WHERE done"
    wait_until(connection, condition, timeout=_READ_TIMEOUT)


@contextmanager
def _create_workspace(file_count: int) -> Iterator[Path]:
    with temporary_workspace(CPU_WORKSPACE, _RULES) as root:
        write_files(root / "landing", file_count, datetime.now(UTC) - _FIRST_AGE)
        yield root


def write_files(folder: Path, count: int, start: datetime) -> None:
    """Write files of one row, for each second one; their numbers are negative."""
    folder.mkdir()
    for number in range(count):
        ts = (start + timedelta(seconds=number)).isoformat()
        row = {"ts": ts, "host": f"h{number % 10}", "n": -number, "cpu": 1.5}
        (folder / f"old-{number:07}.jsonl").write_text(json.dumps(row) + "\n")
