"""G9: live latency while recalls run at full load, beside the same while they rest; and first
answers of ten alerts.

The real processes on one workspace: a stream of 500 rows a second with a filter, and a past of a
million rows in another. In each run, after warming up, latency is taken while nothing is asked,
then ten alerts come at once (each with a norm from history and a similarity recall), then while
more questions than can be answered wait, all read by Spark.
"""

import json
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from psycopg import Connection

from archiver.times import to_micros
from benchmarks.results import BenchmarkResult, make_result, time_noise_kernel
from moirae.config import load_settings_from_environment
from moirae.runtime import database
from recall.ledger import Ledger
from recall.requests import RecallEvent, RecallRequest, SqlQuestion

_REPETITIONS = 5
_FILE_INTERVAL, _ROWS_PER_SECOND = 0.1, 500
_WARM_UP_SECONDS, _MEASURED_SECONDS = 20.0, 30.0
_PAST_ROWS, _LOAD_QUESTIONS = 1_000_000, 400
_WORKSPACE = """
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
"""
_RULES = """
groups:
- name: bench
  rules:
  - alert: High
    expr: SELECT host, n, ts, cpu FROM cpu WHERE cpu > 98 AND cpu < 101
    key: [n]
    id: [n]
    keep_firing_for: 1s
  - alert: Ten
    expr: SELECT host, n, ts, cpu FROM cpu WHERE cpu > 101
    key: [n]
    id: [n]
    keep_firing_for: 1s
    context:
      beside: {sql: SELECT DISTINCT n % 50 AS tag FROM cpu WHERE host = event.host, within: 2s}
    recall:
      norm: {sql: "SELECT avg(h.v) AS mean, stddev(h.v) AS sd, count(*) AS n FROM past h WHERE h.host = event.host"}
      similar: {similar: {k: 10}}
"""

_FIRST_ANSWER_SECONDS = """
SELECT extract(epoch FROM t.first_at - a.raised_at)::float8 FROM tasks t JOIN alerts a ON a.eid = t.eid
"""


def run() -> list[BenchmarkResult]:
    """Measure."""
    noise: list[float] = []
    ratios: list[float] = []
    idle: list[float] = []
    loaded: list[float] = []
    slowest: list[float] = []
    median: list[float] = []
    for repetition in range(_REPETITIONS):
        noise.append(time_noise_kernel())
        quiet, busy, first = _measure_run(repetition)
        ratios.append(busy / quiet)
        idle.append(quiet)
        loaded.append(busy)
        slowest.append(max(first))
        median.append(statistics.median(first))
        told = f"idle p99 {quiet:.3f} s, loaded p99 {busy:.3f} s, ten alerts: slowest first answer {max(first):.3f} s"
        print(f"{repetition + 1}/{_REPETITIONS} {told}", file=sys.stderr)
    both = {
        "idle_p99_s": round(statistics.median(idle), 3),
        "loaded_p99_s": round(statistics.median(loaded), 3),
    }
    beside = {"median_s": round(statistics.median(median), 3)}
    what = "ten alerts at once: alert to first answer, slowest of 20 recalls, seconds"
    return [
        make_result(
            "G9", "live p99 latency under full recall load ÷ idle", ratios, "≤ 1.1", both, noise
        ),
        make_result("G9", what, slowest, "–", beside, noise),
    ]


def _measure_run(seed: int) -> tuple[float, float, list[float]]:
    with _workspace(seed) as root:
        settings = load_settings_from_environment(root / "moirae.yaml")
        connection = database.connect_database(settings, "benchmark")
        process = subprocess.Popen(
            [sys.executable, "-m", "moirae", "up", "--workspace", str(settings.file)],
            stdout=subprocess.DEVNULL,
            stderr=(root / "log").open("wb"),
        )
        producer = _Producer(root / "landing" / "cpu", seed)
        try:
            _wait_for(connection, "SELECT count(*) >= 1 FROM units WHERE done AND stream = 'past'")
            producer.start()
            _wait_for(connection, "SELECT count(*) >= 1 FROM units WHERE done AND stream = 'cpu'")
            _wait_for(
                connection,
                "SELECT EXISTS (SELECT FROM processes WHERE role = 'recall' AND state = 'running')",
            )
            time.sleep(_WARM_UP_SECONDS)
            quiet = _measure_latency(connection)
            producer.send_ten_alerts.set()
            time.sleep(10)
            first = [
                float(row[0])
                for row in connection.execute(_FIRST_ANSWER_SECONDS)
                if row[0] is not None
            ]
            assert len(first) == 20, f"{len(first)} of 20 recalls have an answer"
            _add_load(connection)
            time.sleep(5)
            busy = _measure_latency(connection)
            left = connection.execute(
                "SELECT count(*) FROM tasks WHERE state IN ('waiting', 'running')"
            ).fetchone()
            assert left is not None
            assert left[0] > 0, "the recall process had nothing left to do: the load was not full"
        finally:
            producer.stop()
            process.send_signal(signal.SIGTERM)
            process.wait(60)
        connection.close()
        return quiet, busy, first


def _measure_latency(connection: Connection[Any]) -> float:
    """p99 from the creation of a row to the row of its alert, over the time to come."""
    since = datetime.now(UTC)
    time.sleep(_MEASURED_SECONDS)
    until = datetime.now(UTC)
    time.sleep(2)
    query = (
        "SELECT extract(epoch FROM raised_at - starts_at)::float8 FROM alerts "
        "WHERE rule = 'bench/High' AND starts_at BETWEEN %s AND %s"
    )
    delays = [float(row[0]) for row in connection.execute(query, (since, until))]
    return statistics.quantiles(delays, n=100)[98]


def _add_load(connection: Connection[Any]) -> None:
    """More than can be answered, each a question of its own, in words that only Spark serves."""
    now = to_micros(datetime.now(UTC))
    ledger = Ledger(connection)
    requests = []
    for number in range(_LOAD_QUESTIONS):
        sql = f"SELECT avg(abs(h.v)) AS mean, count(*) AS n FROM past h WHERE h.v > {number % 90} AND length(h.host) > 1"
        question = SqlQuestion(
            None, 1.0, "newest", sql, {"past": "ts"}, (), {}, {"host": "string"}, {}, {}
        )
        asked = RecallEvent(uuid4(), now, {}, {"host": "h1"})
        requests.append(RecallRequest("bench/Load", "1", f"load{number}", question, asked, 0))
    with connection.transaction():
        ledger.add(requests)


def _wait_for(connection: Connection[Any], condition: str, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        row = connection.execute(condition.encode()).fetchone()
        if row is not None and row[0]:
            return
        time.sleep(0.1)
    raise TimeoutError(condition)


class _Producer:
    """500 rows a second; once told, ten of them that a rule with recalls is about."""

    def __init__(self, landing: Path, seed: int) -> None:
        self.send_ten_alerts = threading.Event()
        self._landing = landing
        self._rng = random.Random(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._produce)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _produce(self) -> None:
        due, number, sent = time.monotonic(), 0, False
        while not self._stop.is_set():
            number += 1
            now = datetime.now(UTC)
            each = int(_ROWS_PER_SECOND * _FILE_INTERVAL)
            rows = [
                self._make_row(
                    now - timedelta(seconds=_FILE_INTERVAL * (1 - (i + 1) / each)),
                    number * 1000 + i,
                )
                for i in range(each)
            ]
            if self.send_ten_alerts.is_set() and not sent:
                sent = True
                for host, row in enumerate(rows[-10:]):
                    row |= {"cpu": 150.0, "host": f"h{host}"}
            hidden = self._landing / f".{number:08d}.jsonl"
            hidden.write_text("".join(json.dumps(row) + "\n" for row in rows))
            hidden.rename(self._landing / hidden.name[1:])
            due += _FILE_INTERVAL
            self._stop.wait(max(0.0, due - time.monotonic()))

    def _make_row(self, ts: datetime, n: int) -> dict[str, Any]:
        text = ts.isoformat(timespec="microseconds").replace("+00:00", "Z")
        return {
            "ts": text,
            "host": f"h{self._rng.randrange(10)}",
            "n": n,
            "cpu": round(self._rng.uniform(0, 100), 2),
        }


@contextmanager
def _workspace(seed: int) -> Iterator[Path]:
    root = Path(tempfile.mkdtemp(prefix="moirae-bench-"))
    root.chmod(0o755)
    (root / "moirae.yaml").write_text(_WORKSPACE)
    (root / "rules.yaml").write_text(_RULES)
    for name in ("cpu", "past"):
        (root / "landing" / name).mkdir(parents=True)
    rng, start = random.Random(seed), datetime.now(UTC) - timedelta(days=20)
    lines = (
        _past_line(rng, start + timedelta(seconds=number * 1.7)) for number in range(_PAST_ROWS)
    )
    (root / "landing" / "past" / "all.jsonl").write_text("".join(lines))
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _past_line(rng: random.Random, ts: datetime) -> str:
    return f'{{"ts": "{ts.isoformat()}", "host": "h{rng.randrange(10)}", "v": {rng.uniform(0, 100):.2f}}}\n'
