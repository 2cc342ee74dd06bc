"""A recall that exhausts memory or never ends fails alone, with a reason; other recalls and the live
process are not affected.
"""

import json
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from psycopg import Connection

from moirae.config.settings import load_settings
from moirae.runtime import database
from tests.faults import harness
from tests.landing import put_file

WORKSPACE = """
home: .moirae
streams:
  cpu:
    columns: {ts: timestamp, host: string, n: bigint, cpu: double}
    time: ts
    id: [n]
    key: [host]
    lateness: 0s
    source: {files: landing/*.jsonl}
recall: {query_timeout: 15s}
rules: [rules.yaml]
"""
BOMBS = {
    "memory": "SELECT max(size(sequence(1, c.n + 200000000))) AS x FROM cpu c",
    "time": """SELECT max(size(filter(sequence(1, 20000), x -> exists(sequence(1, 20000), y -> exists(
        sequence(1, 20000), z -> x * y + z = -c.n))))) AS x FROM cpu c""",
}
RULES = """
groups:
- name: g
  rules:
  - alert: Bomb
    expr: SELECT host, n, ts FROM cpu WHERE cpu = 200
    key: [n]
    recall:
      bomb: {sql: "BOMB"}
      sound: {sql: SELECT count(*) AS n FROM cpu c WHERE c.host = event.host}
  - alert: High
    expr: SELECT host, n, ts, cpu FROM cpu WHERE cpu > 98 AND cpu < 101
    key: [n]
    keep_firing_for: 1s
"""

pytestmark = pytest.mark.faults


@pytest.fixture
def workspace() -> Iterator[Path]:
    with harness.workspace(WORKSPACE, RULES) as root:
        (root / "landing").mkdir()
        yield root


class _Producer(threading.Thread):
    """A hundred rows a second; one of them, when told, sets the bomb off."""

    def __init__(self, landing: Path) -> None:
        super().__init__(daemon=True)
        self.landing, self.bomb, self.stop = landing, threading.Event(), threading.Event()

    def run(self) -> None:
        number = 0
        while not self.stop.wait(0.1):
            number += 1
            now = datetime.now(UTC)
            rows = [
                {
                    "ts": (now - timedelta(milliseconds=i)).isoformat(),
                    "host": "h",
                    "n": number * 100 + i,
                    "cpu": 10.0 * i,
                }
                for i in range(10)
            ]
            rows[1]["cpu"] = 99.0
            if self.bomb.is_set():
                self.bomb.clear()
                rows[0]["cpu"] = 200.0
            lines = "".join(json.dumps(row) + "\n" for row in rows)
            put_file(self.landing / f"{number:06}.jsonl", lines)


def _alert_delays(connection: Connection, since: datetime) -> list[float]:
    """Seconds from the event to each alert since a time."""
    rows = connection.execute(
        "SELECT extract(epoch FROM raised_at - starts_at)::float8 FROM alerts WHERE rule = "
        "'g/High' AND starts_at > %s",
        (since,),
    ).fetchall()
    return [row[0] for row in rows]


def _until(what: str, holds: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.2)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("bomb", BOMBS)
def test_recall_that_exhausts_memory_or_time_fails_alone(workspace: Path, bomb: str) -> None:
    (workspace / "rules.yaml").write_text(RULES.replace("BOMB", " ".join(BOMBS[bomb].split())))
    with database.connect_database(
        load_settings(workspace / "moirae.yaml", {}), "test"
    ) as connection:
        command = [
            sys.executable,
            "-m",
            "moirae",
            "up",
            "--workspace",
            str(workspace / "moirae.yaml"),
        ]
        up = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=(workspace / "log").open("wb")
        )
        producer = _Producer(workspace / "landing")
        try:
            since = datetime.now(UTC)
            producer.start()
            _until("alerts are stored", lambda: len(_alert_delays(connection, since)) > 100, 300)
            quiet = _alert_delays(connection, since)[50:]
            producer.bomb.set()
            since = datetime.now(UTC)
            _until("recalls begin", lambda: len(_states(connection)) == 2, 120)
            _until(
                "alerts are stored during the recall",
                lambda: len(_alert_delays(connection, since)) > 50,
                120,
            )
            assert set(_states(connection).values()) & {"waiting", "running"}, (
                "the bomb has not ended yet"
            )
            _until(
                "recalls have ended",
                lambda: not {"waiting", "running"} & set(_states(connection).values()),
                900,
            )
            loud = _alert_delays(connection, since)
            error, tries = connection.execute(
                "SELECT error, tries FROM tasks WHERE recall = 'bomb'"
            ).fetchone()
        finally:
            producer.stop.set()
            up.send_signal(signal.SIGTERM)
            up.wait(60)
        before, under = statistics.median(quiet), statistics.median(loud)
        print(
            f"{bomb}: median event to alert {before:.3f} s before, {under:.3f} s under it; "
            f"{tries} tries; {error}"
        )
        assert _states(connection) == {"bomb": "failed", "sound": "done"}
        assert "needs too much" in error


def _states(connection: Connection) -> dict[str, str]:
    return dict(connection.execute("SELECT recall, state FROM tasks").fetchall())
