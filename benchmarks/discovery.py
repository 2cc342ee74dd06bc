"""D1: live work beside a folder of many archived files ÷ beside one of few. D2: its cores.

The real processes run on a new workspace, whose few files are archived first. Then 500 rows a
second come in 10 files a second, with two rules. Measured are the p99 from the creation of a row to
its alert, and the processor time of the JVM (D1) and of all processes (D2). Then many files are
moved to the folder; once they are archived, the same is measured again.
"""

import json
import os
import statistics
import sys
import time
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
from benchmarks.live_stream import CPU_WORKSPACE, HIGH_RULES
from benchmarks.results import BenchmarkResult, make_result, rounded_median
from benchmarks.timing import time_noise_kernel
from moirae.config import Settings, load_settings_from_environment
from moirae.runtime import database

_REPETITIONS = 1
_FEW_FILES = 100
_MANY_FILES = 300_000
_READ_TIMEOUT = 3_600.0  # seconds, for files that are not measured
_POLL_INTERVAL = 2.0  # seconds: counting them takes processor time
_WARM_UP_SECONDS = 90.0  # until the JVM has compiled what it executes
_SETTLING_SECONDS = 20.0  # once many files are archived
_MEASURED_SECONDS = 30.0
_FIRST_AGE = timedelta(days=20)
_RULES = f"""{HIGH_RULES}  - alert: Window
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
    """Measure beside few files, then beside many."""
    noise: list[float] = []
    pairs: list[tuple[LiveFigures, LiveFigures]] = []
    for repetition in range(_REPETITIONS):
        noise.append(time_noise_kernel())
        pairs.append(measure_live(_MANY_FILES, seed=repetition))
    few = [figures for figures, _ in pairs]
    subject = f"live work beside {_MANY_FILES:,} archived files ÷ beside {_FEW_FILES}"
    return [
        make_result(
            "D1",
            f"{subject}: p99 from row to alert",
            [many.p99 / few.p99 for few, many in pairs],
            target="≤ 1.2",
            details={"few, seconds": rounded_median([figures.p99 for figures in few], 3)},
            noise=noise,
        ),
        make_result(
            "D1",
            f"{subject}: cores of the JVM",
            [many.jvm_cores / few.jvm_cores for few, many in pairs],
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


def measure_live(many_files: int, seed: int) -> tuple[LiveFigures, LiveFigures]:
    """Live work beside few archived files, and then beside many."""
    with temporary_workspace(CPU_WORKSPACE, _RULES) as root:
        start = datetime.now(UTC) - _FIRST_AGE
        landing = root / "landing"
        write_files(landing, _FEW_FILES, start)
        write_files(root / "more", many_files, start, first=_FEW_FILES)
        os.sync()  # not while live work is measured
        settings = load_settings_from_environment(root / "moirae.yaml")
        producer = LiveProducer(landing, seed, lambda _: None)
        with (
            database.connect_database(settings, "benchmark") as connection,
            moirae_up(settings, root / "log"),
        ):
            _wait_for_files(connection, _FEW_FILES)
            producer.start()
            try:
                time.sleep(_WARM_UP_SECONDS)
                few = _measure(connection, settings)
                for file in (root / "more").iterdir():
                    file.rename(landing / file.name)
                _wait_for_files(connection, _FEW_FILES + many_files)
                # What the database owes the disk for the ledger of the files, which it would write
                # while live work is measured.
                connection.execute("CHECKPOINT")
                os.sync()
                time.sleep(_SETTLING_SECONDS)
                return few, _measure(connection, settings)
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
    figures = LiveFigures(p99, jvm_cores, (processor_seconds(processes) - before) / elapsed)
    print(figures, file=sys.stderr)  # the end of the workspace takes minutes
    return figures


def _wait_for_files(connection: Connection[Any], count: int) -> None:
    """Until so many of the files with old rows are archived."""
    condition = f"SELECT count(*) >= {count} FROM units WHERE done AND unit LIKE 'landing/old-%'"
    wait_until(connection, condition, _READ_TIMEOUT, _POLL_INTERVAL)


def write_files(folder: Path, count: int, start: datetime, first: int = 0) -> None:
    """Write files of one row, for each second one; their numbers are negative."""
    folder.mkdir()
    for number in range(first, first + count):
        ts = (start + timedelta(seconds=number)).isoformat()
        row = {"ts": ts, "host": f"h{number % 10}", "n": -number, "cpu": 1.5}
        (folder / f"old-{number:07}.jsonl").write_text(json.dumps(row) + "\n")
