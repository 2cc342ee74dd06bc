"""Live latency in a running workspace: from the time of a row to the moment of its alert."""

import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from psycopg import Connection

from benchmarks.live_stream import CpuStream, FileProducer, Row

MEASURED_RULE = """
groups:
- name: bench
  rules:
  - alert: High
    expr: SELECT host, n, ts, cpu FROM cpu WHERE cpu > 98 AND cpu < 101
    key: [n]
    id: [n]
    keep_firing_for: 1s
"""
"""The rule whose alerts are measured; more rules of its group may follow."""
WORKSPACE = """
home: .moirae
streams:
  cpu:
    columns: {ts: timestamp, host: string, n: bigint, cpu: double}
    time: ts
    id: [n]
    key: [host]
    lateness: 0s
    source: {files: landing/cpu/*.jsonl}
  past:
    columns: {ts: timestamp, host: string, v: double}
    time: ts
    key: [host]
    source: {files: landing/past/*.jsonl}
chunks: {rows: 20_000, age: 30d}
rules: [rules.yaml]
server: {listen: "127.0.0.1:0"}
"""
"""With the stream of the producer, and one that recalls read."""

_START_TIMEOUT = 120.0  # seconds
_POLL_INTERVAL = 0.1  # seconds
_LAST_ALERT_TIMEOUT = 600.0  # seconds until rows that were measured have their alerts
_RECALL_PROCESS_RUNS = (
    "SELECT EXISTS (SELECT FROM processes WHERE role = 'recall' AND state LIKE 'running%')"
)


class LiveProducer(FileProducer):
    """A thread that writes the stream `cpu`; `edit` changes the rows of each file."""

    def __init__(self, landing: Path, seed: int, edit: Callable[[list[Row]], None]) -> None:
        self._stream = CpuStream(landing, seed)
        self._edit = edit
        super().__init__(self._write_rows)

    def _write_rows(self, now: datetime) -> None:
        rows = self._stream.make_rows(now)
        self._edit(rows)
        self._stream.write_file(rows)


def start_live(connection: Connection[Any], producer: LiveProducer) -> None:
    """Start the stream when the archived rows were read; wait for the recall process."""
    wait_until(connection, "SELECT count(*) >= 1 FROM units WHERE done AND stream = 'past'")
    producer.start()
    wait_until(connection, "SELECT count(*) >= 1 FROM units WHERE done AND stream = 'cpu'")
    wait_until(connection, _RECALL_PROCESS_RUNS)


def measure_p99(connection: Connection[Any], rule: str, seconds: float) -> float:
    """The p99 seconds from the creation of a row to its alert, measured from now on."""
    since = datetime.now(UTC)
    time.sleep(seconds)
    until = datetime.now(UTC)
    has_later_alert = "SELECT EXISTS (SELECT FROM alerts WHERE rule = '{}' AND starts_at > '{}')"
    wait_until(connection, has_later_alert.format(rule, until), _LAST_ALERT_TIMEOUT)
    rows = connection.execute(
        "SELECT extract(epoch FROM raised_at - starts_at)::float8 FROM alerts "
        "WHERE rule = %s AND starts_at BETWEEN %s AND %s",
        (rule, since, until),
    )
    delays = [float(row[0]) for row in rows]
    return statistics.quantiles(delays, n=100)[98]


def wait_until(
    connection: Connection[Any],
    condition: str,
    timeout: float = _START_TIMEOUT,
    interval: float = _POLL_INTERVAL,
) -> None:
    """Wait until a query returns true, which is asked at an interval. All in seconds."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        row = connection.execute(condition.encode()).fetchone()
        if row is not None and row[0]:
            return
        time.sleep(interval)
    raise TimeoutError(f"not fulfilled after {timeout:g} s: {condition}")
