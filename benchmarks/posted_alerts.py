"""NB3: posted alert → similar past alerts ÷ own alert → the same.

In one workspace with as many past alerts of a rule of its own and of one of Prometheus, alerts of both
come in turns, by HTTP. Seconds are those from sending the row or the alert until the similar alerts
are stored, as the page of the alert shows them.
"""

import socket
import statistics
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import orjson

import sql
from benchmarks.fixtures import moirae_up, temporary_workspace
from benchmarks.results import BenchmarkResult, make_result, rounded_median
from benchmarks.timing import time_noise_kernel
from moirae.config import load_settings_from_environment
from moirae.runtime import database
from moirae.services import tokens

_REPETITIONS = 3
_PAST_ALERTS = 100
_ALERTS = 10  # of each kind, in a repetition
_TIMEOUT = 300.0  # seconds
_POLL_INTERVAL = 0.01  # seconds
_WORKSPACE = """
home: .moirae
server: {{listen: "127.0.0.1:{port}"}}
streams:
  load:
    columns: {{ts: timestamp, host: string, service: string, zone: string}}
    time: ts
    id: [host]
    key: [host]
    source: {{http: true}}
rules: [rules.yaml]
"""
_RULES = """
groups:
- name: own
  rules:
  - alert: High
    expr: SELECT host, service, zone, ts FROM load
    key: [host, service, zone]
    keep_firing_for: 1s
    labels: {severity: page}
    context:
      labels: {sql: "SELECT event.host AS host, event.service AS service, event.zone AS zone"}
    recall:
      similar: {similar: {contexts: [labels], k: 10, measure: binary}}
"""
# The last answer about the alert of a host.
_ANSWERED = """
SELECT extract(epoch FROM min(r.at))::float8 FROM tasks t JOIN revisions r ON r.task = t.id
WHERE t.event->'key'->>'host' = %s AND jsonb_array_length(r.answer) > 0
"""


def run() -> list[BenchmarkResult]:
    """Measure alerts of both kinds in turns."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with temporary_workspace(_WORKSPACE.format(port=port), _RULES) as root:
        settings = load_settings_from_environment(root / "moirae.yaml")
        with (
            database.connect_database(settings, "benchmark") as connection,
            moirae_up(settings, root / "log"),
        ):
            headers = {
                "Authorization": f"Bearer {tokens.create_token(connection, 'producer', 'source')}",
                "Content-Type": "application/json",
            }
            url = f"http://127.0.0.1:{port}"
            with httpx.Client(base_url=url, headers=headers, timeout=60) as client:
                return _measure(_Senders(client), connection)


class _Senders:
    """Sends alerts of both kinds, each of another host."""

    def __init__(self, client: httpx.Client) -> None:
        self.client = client
        self._number = 0

    def send_own(self, ts: datetime) -> str:
        labels = self._make_labels()
        row = {"ts": ts.isoformat(), **labels}
        self._post("/api/v1/ingest/load", [row])
        return labels["host"]

    def send_external(self, starts_at: datetime, ends_at: datetime | None = None) -> str:
        labels = self._make_labels()
        alert: dict[str, Any] = {
            "labels": {"alertname": "High", "severity": "page", **labels},
            "startsAt": starts_at.isoformat(),
        }
        if ends_at is not None:
            alert["endsAt"] = ends_at.isoformat()
        self._post("/api/v2/alerts", [alert])
        return labels["host"]

    def _make_labels(self) -> dict[str, str]:
        self._number += 1
        return {
            "host": f"h{self._number}",
            "service": f"s{self._number % 7}",
            "zone": f"z{self._number % 3}",
        }

    def _post(self, path: str, body: Any) -> None:
        deadline = time.monotonic() + _TIMEOUT
        while time.monotonic() < deadline:
            try:
                answer = self.client.post(path, content=orjson.dumps(body))
            except httpx.TransportError:  # the server starts
                time.sleep(0.2)
                continue
            if answer.status_code not in (429, 503):
                answer.raise_for_status()
                return
            time.sleep(0.2)
        raise RuntimeError(f"{path} is not served")


def _measure(senders: _Senders, connection: sql.Connection) -> list[BenchmarkResult]:
    _send_past(senders, connection)
    ratios: list[float] = []
    posted: list[float] = []
    own: list[float] = []
    noise: list[float] = []
    for repetition in range(_REPETITIONS + 1):
        noise.append(time_noise_kernel())
        own_seconds: list[float] = []
        posted_seconds: list[float] = []
        for _ in range(_ALERTS):
            sent_at = time.time()
            host = senders.send_own(datetime.now(UTC))
            own_seconds.append(_await_answer(connection, host) - sent_at)
            sent_at = time.time()
            host = senders.send_external(datetime.now(UTC))
            posted_seconds.append(_await_answer(connection, host) - sent_at)
        own_median = statistics.median(own_seconds)
        posted_median = statistics.median(posted_seconds)
        print(
            f"NB3 {repetition}/{_REPETITIONS}: own {own_median:.3f} s, posted {posted_median:.3f} s",
            file=sys.stderr,
        )
        if repetition:  # the first one warms up
            own.append(own_median)
            posted.append(posted_median)
            ratios.append(posted_median / own_median)
    return [
        make_result(
            "NB3",
            "posted alert → similar past alerts ÷ own alert → the same, medians",
            ratios,
            target="≤ 1.2",
            details={
                "posted, seconds": rounded_median(posted, 3),
                "own, seconds": rounded_median(own, 3),
            },
            noise=noise,
        )
    ]


def _send_past(senders: _Senders, connection: sql.Connection) -> None:
    """Past alerts of both kinds, and wait until all are in the corpus."""
    start = datetime.now(UTC) - timedelta(hours=6)
    for number in range(_PAST_ALERTS):
        ts = start + timedelta(minutes=number)
        senders.send_own(ts)
        senders.send_external(ts, ts + timedelta(seconds=30))
    deadline = time.monotonic() + _TIMEOUT
    statement = "SELECT count(*) FROM contexts WHERE corpus IS NOT NULL"
    while True:
        row = connection.execute(statement).fetchone()
        if row is not None and row[0] >= 1.8 * _PAST_ALERTS:
            return
        if time.monotonic() > deadline:
            raise RuntimeError(f"{row} of {2 * _PAST_ALERTS} alerts are in the corpus")
        time.sleep(0.2)


def _await_answer(connection: sql.Connection, host: str) -> float:
    """When similar alerts were stored, in seconds since the epoch."""
    deadline = time.monotonic() + _TIMEOUT
    while time.monotonic() < deadline:
        row = connection.execute(_ANSWERED, (host,)).fetchone()
        if row is not None and row[0] is not None:
            return float(row[0])
        time.sleep(_POLL_INTERVAL)
    raise RuntimeError(f"no similar alerts of {host} within {_TIMEOUT:g} s")
