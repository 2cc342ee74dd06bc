"""S8: CPU of a workspace without new input, over all its processes.

The real processes run on a new workspace: live with Spark, recall, server, supervisor and the
embedded PostgreSQL. Rows come at 500 per second for a while, from which rules raise alerts with
recalls; then nothing comes. After a warm-down, in which recalls end and what runs once is done, the
CPU time of a minute is measured. Beside it: the seconds from the first file after that minute to
its commit.
"""

import socket
import sys
import time
from datetime import UTC, datetime
from typing import Any

from psycopg import Connection

from benchmarks.fixtures import (
    moirae_up,
    processor_seconds,
    temporary_workspace,
    workspace_processes,
)
from benchmarks.live_stream import CpuStream, repeat_at_file_interval
from benchmarks.results import BenchmarkResult, make_result, rounded_median
from benchmarks.timing import time_noise_kernel
from moirae.config import load_settings_from_environment
from moirae.runtime import database

_REPETITIONS = 3
_TARGET = "≤ 0.05"
_START_TIMEOUT = 240.0  # seconds until the first commit
_INPUT_SECONDS = 20.0
_WARM_DOWN_SECONDS = 100.0
_MEASURED_SECONDS = 60.0
_COMMIT_TIMEOUT = 60.0  # seconds for the first file after the idle time
_POLL_INTERVAL = 0.01  # seconds
_WORKSPACE = """
home: .moirae
server: {{listen: "127.0.0.1:{port}"}}
streams:
  cpu:
    columns: {{ts: timestamp, host: string, n: bigint, cpu: double}}
    time: ts
    id: [n]
    key: [host]
    lateness: 0s
    source: {{files: landing/*.jsonl}}
  posted:
    columns: {{ts: timestamp, host: string, v: double}}
    time: ts
    key: [host]
    source: {{http: true}}
rules: [rules.yaml]
"""
_RULES = """
groups:
- name: bench
  rules:
  - alert: Filter
    expr: SELECT host, n, ts, cpu FROM cpu WHERE cpu > 99.9
    key: [n]
    id: [n]
    keep_firing_for: 1s
    context:
      near: {sql: SELECT DISTINCT n % 50 AS tag FROM cpu WHERE host = event.host, within: 2s}
    recall:
      norm: {sql: SELECT avg(h.cpu) AS mean FROM cpu h WHERE h.host = event.host}
  - alert: Window
    expr: >-
      SELECT host, window.end AS ts, max(cpu) AS top
      FROM cpu GROUP BY host, window(ts, '2 seconds') HAVING max(cpu) > 99.9
    key: [host]
    keep_firing_for: 0s
"""


def run() -> list[BenchmarkResult]:
    """Measure new workspaces, one after the other."""
    cores: list[float] = []
    commit_seconds: list[float] = []
    noise: list[float] = []
    for repetition in range(_REPETITIONS):
        noise.append(time_noise_kernel())
        used_cores, seconds = _measure(seed=repetition)
        cores.append(used_cores)
        commit_seconds.append(seconds)
        print(
            f"{repetition + 1}/{_REPETITIONS}: {used_cores:.3f} cores, commit {seconds:.2f} s",
            file=sys.stderr,
        )
    result = make_result(
        "S8",
        "CPU of an idle workspace, all processes, cores",
        cores,
        target=_TARGET,
        details={"first commit after it, seconds": rounded_median(commit_seconds, 2)},
        noise=noise,
    )
    return [result]


def _measure(seed: int) -> tuple[float, float]:
    """Cores used without input, and seconds from the first file after that to its commit."""
    with temporary_workspace(_WORKSPACE.format(port=_free_port()), _RULES) as root:
        settings = load_settings_from_environment(root / "moirae.yaml")
        landing = root / "landing"
        landing.mkdir()
        stream = CpuStream(landing, seed)
        with moirae_up(settings, root / "log"):
            with database.connect_database(settings, "benchmark") as connection:
                stream.write_file(stream.make_rows(datetime.now(UTC)))
                _wait_for_units(connection, 1, _START_TIMEOUT)
                _write_for(stream, _INPUT_SECONDS)
            time.sleep(_WARM_DOWN_SECONDS)
            started_at = time.monotonic()
            cpu_before = processor_seconds(workspace_processes(settings))
            time.sleep(_MEASURED_SECONDS)
            cpu_seconds = processor_seconds(workspace_processes(settings)) - cpu_before
            elapsed = time.monotonic() - started_at
            with database.connect_database(settings, "benchmark") as connection:
                count = _count_units(connection)
                written_at = time.monotonic()
                stream.write_file(stream.make_rows(datetime.now(UTC)))
                _wait_for_units(connection, count + 1, _COMMIT_TIMEOUT)
                return cpu_seconds / elapsed, time.monotonic() - written_at


def _free_port() -> int:
    """A port for the server: one in use would make it restart again and again."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _write_for(stream: CpuStream, seconds: float) -> None:
    end = time.monotonic() + seconds

    def write(now: datetime) -> bool:
        stream.write_file(stream.make_rows(now))
        return time.monotonic() < end

    repeat_at_file_interval(write)


def _wait_for_units(connection: Connection[Any], count: int, timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while _count_units(connection) < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"no {count} archived units after {timeout:g} s")
        time.sleep(_POLL_INTERVAL)


def _count_units(connection: Connection[Any]) -> int:
    row = connection.execute("SELECT count(*) FROM units WHERE done").fetchone()
    assert row is not None
    return int(row[0])
