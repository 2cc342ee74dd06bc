"""NT1, NT2: from alert to webhook, and messages per second beside Alertmanager's.

NT1: `moirae up` with rules that raise about one alert a second, `group_wait: 0s`. *Fired →
received*: from the row of the alert to its message at a local webhook. *Event → alert*: from the
creation of the event to that row, in the same run. NT2: 10,000 alerts of as many groups are stored
at once; the process of notifications commits and delivers a message about each. Alertmanager gets
the same alerts by its API, and delivers to the same webhook.
"""

import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

import orjson

import sql
from benchmarks.fixtures import moirae_up, temporary_folder, temporary_workspace
from benchmarks.live_stream import CpuStream, repeat_at_file_interval
from benchmarks.results import BenchmarkResult, make_result, rounded_median
from benchmarks.timing import time_noise_kernel
from benchmarks.webhook import Webhook, running_webhook
from moirae.config import load_settings_from_environment
from moirae.runtime import database
from sql.alerts import AlertDescriptionRow, AlertGateway, AlertLifetimeRow
from tests.alertmanager import Alertmanager, find_program, running_alertmanager

_REPETITIONS = 3
_WARM_UP_SECONDS = 20.0
_MEASURED_SECONDS = 60.0
_SETTLE_SECONDS = 5.0  # without a message, after which none is left
_MAX_SETTLE = 120.0  # seconds
_GROUPS = 10_000
# Whether the live process has caught up with the rows that came while it started.
_IS_CURRENT = (
    "SELECT EXISTS (SELECT FROM alerts WHERE NOT past AND raised_at - starts_at < interval '5 s')"
)
_BATCH = 500  # alerts that are stored, or posted, at once
_START_TIMEOUT = 600.0  # seconds until alerts are told as rows come
_TIMEOUT = 600.0  # seconds for all messages
_STORM = _GROUPS / 60  # groups a second
_NAMESPACE = UUID(int=51)
_ROUTE = "group_by: ['...'], group_wait: 0s, group_interval: 5m, repeat_interval: 4h"
_LATENCY_WORKSPACE = """
home: .moirae
server: {{listen: "127.0.0.1:0"}}
streams:
  cpu:
    columns: {{ts: timestamp, host: string, n: bigint, cpu: double}}
    time: ts
    id: [n]
    key: [host]
    lateness: 0s
    source: {{files: landing/*.jsonl}}
rules: [rules.yaml]
receivers: {{hook: {{webhook: "{url}", send_resolved: false}}}}
routes: [{{receiver: hook, {route}}}]
limits: {{notifications: 1000000}}
"""
# 500 rows a second, of which one in 500 fires.
_RULES = """
groups:
- name: bench
  rules:
  - alert: High
    expr: SELECT host, n, ts, cpu FROM cpu WHERE cpu > 99.8
    key: [n]
    id: [n]
    keep_firing_for: 1s
    context:
      usage: {sql: "SELECT round(cpu, -1) AS cpu FROM cpu WHERE host = event.host", within: 5s}
    recall:
      norm:
        sql: SELECT avg(x.cpu) AS mean, stddev(x.cpu) AS sd FROM cpu x WHERE x.host = event.host
        range: 1h
      similar: {similar: {k: 3}}
"""
_STORM_WORKSPACE = """
home: .moirae
server: {{listen: "127.0.0.1:0"}}
streams: {{}}
receivers: {{hook: {{webhook: "{url}"}}}}
routes: [{{receiver: hook, {route}}}]
limits: {{notifications: 1000000}}
"""


def run() -> list[BenchmarkResult]:
    """Measure both; NT2 only where Alertmanager is installed."""
    noise = [time_noise_kernel()]
    results = [*_measure_latencies(noise)]
    if find_program("prometheus-alertmanager") is None:
        print("NT2 needs Alertmanager: run `make alertmanager`", file=sys.stderr)
        return results
    return [*results, *_measure_rates(noise)]


# NT1


def _measure_latencies(noise: list[float]) -> list[BenchmarkResult]:
    ratios: list[float] = []
    seconds: list[float] = []
    shares: list[float] = []
    for repetition in range(_REPETITIONS):
        noise.append(time_noise_kernel())
        to_alert, to_webhook, share = _measure_latency(seed=repetition)
        p99 = _find_p99(to_webhook)
        ratios.append(p99 / _find_p99(to_alert))
        seconds.append(p99)
        shares.append(share)
        print(
            f"NT1 {repetition + 1}/{_REPETITIONS}: {len(to_webhook)} alerts, event to alert p99 "
            f"{_find_p99(to_alert):.3f} s, fired to received p99 {p99:.3f} s, "
            f"norm and similar in {share:.1%}",
            file=sys.stderr,
        )
    return [
        make_result(
            "NT1",
            "p99 of fired → received by a webhook ÷ p99 of event → alert",
            ratios,
            target="≤ 3",
            details={"received p99, seconds": rounded_median(seconds, 3)},
            noise=noise,
        ),
        make_result(
            "NT1",
            "share of first messages with norm and similar alerts",
            shares,
            target="≥ 0.95",
            noise=noise,
        ),
    ]


def _measure_latency(seed: int) -> tuple[list[float], list[float], float]:
    """Seconds from event to alert and from alert to webhook, and the share with history."""
    with temporary_folder() as folder, running_webhook(folder) as webhook:
        workspace = _LATENCY_WORKSPACE.format(url=webhook.url, route=_ROUTE)
        with temporary_workspace(workspace, _RULES) as root:
            settings = load_settings_from_environment(root / "moirae.yaml")
            with database.connect_database(settings, "benchmark") as connection:
                with moirae_up(settings, root / "log"):
                    warm_at = _produce(root / "landing", connection, webhook, seed)
                    _wait_until_silent(webhook)
                alerts = connection.execute(
                    "SELECT id::text, extract(epoch FROM starts_at)::float8, "
                    "extract(epoch FROM raised_at)::float8 FROM alerts "
                    "WHERE starts_at > %s AND NOT past",
                    (warm_at,),
                ).fetchall()
            messages = _list_first_messages(webhook)
    to_alert: list[float] = []
    to_webhook: list[float] = []
    complete = 0
    for alert_id, starts_at, raised_at in alerts:
        if alert_id in messages:
            received_at, details = messages[alert_id]
            to_alert.append(raised_at - starts_at)
            to_webhook.append(received_at - raised_at)
            complete += "norm" in details and "similar" in details
    return to_alert, to_webhook, complete / max(len(to_webhook), 1)


def _produce(landing: Path, connection: sql.Connection, webhook: Webhook, seed: int) -> datetime:
    """Write files until alerts are stored and told as rows come, to warm up, and for some seconds.

    Returns the event time from which alerts count.
    """
    landing.mkdir()
    stream = CpuStream(landing, seed)
    warm_at: datetime | None = None
    deadline = time.monotonic() + _START_TIMEOUT

    def write(now: datetime) -> bool:
        nonlocal warm_at
        stream.write_file(stream.make_rows(now))
        if warm_at is None:
            row = connection.execute(_IS_CURRENT).fetchone()
            if row is not None and row[0] and webhook.count():
                warm_at = now + timedelta(seconds=_WARM_UP_SECONDS)
            return time.monotonic() < deadline
        return now < warm_at + timedelta(seconds=_MEASURED_SECONDS)

    repeat_at_file_interval(write)
    if warm_at is None:
        raise RuntimeError(f"no alert is told within {_START_TIMEOUT:g} s")
    return warm_at


def _wait_until_silent(webhook: Webhook) -> None:
    """Wait for the messages about the last alerts: rows may be read late."""
    deadline = time.monotonic() + _MAX_SETTLE
    count = -1
    while count != webhook.count() and time.monotonic() < deadline:
        count = webhook.count()
        time.sleep(_SETTLE_SECONDS)


def _list_first_messages(webhook: Webhook) -> dict[str, tuple[float, Mapping[str, Any]]]:
    """By alert, when its first message came, and what it says of history."""
    first: dict[str, tuple[float, Mapping[str, Any]]] = {}
    for message in webhook.read():
        for alert in message["alerts"]:
            if "summary" in alert["moirae"]:
                break  # the alerts after it are examples of those that it counts
            if "id" in alert["moirae"]:
                first.setdefault(alert["moirae"]["id"], (message["at"], alert["moirae"]))
    return first


def _find_p99(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=100)[98] if len(values) > 1 else float("nan")


# NT2


def _measure_rates(noise: list[float]) -> list[BenchmarkResult]:
    ratios: list[float] = []
    rates: list[float] = []
    for repetition in range(_REPETITIONS):
        noise.append(time_noise_kernel())
        theirs, ours = _measure_alertmanager(), _measure_moirae()
        ratios.append(ours / theirs)
        rates.append(ours)
        print(
            f"NT2 {repetition + 1}/{_REPETITIONS}: {ours:.0f} messages/s, "
            f"Alertmanager {theirs:.0f}",
            file=sys.stderr,
        )
    return [
        make_result(
            "NT2",
            "messages per second with the outbox committed ÷ Alertmanager's, 10,000 groups",
            ratios,
            target="≥ 0.25",
            noise=noise,
        ),
        make_result(
            "NT2",
            "messages per second of a storm of 10,000 alerts",
            rates,
            target=f"≥ {_STORM:.0f}",
            noise=noise,
        ),
    ]


def _measure_alertmanager() -> float:
    """Messages per second of Alertmanager."""
    with temporary_folder() as folder, running_webhook(folder) as webhook:
        config = (
            f"route: {{receiver: hook, {_ROUTE}}}\n"
            f"receivers: [{{name: hook, webhook_configs: [{{url: '{webhook.url}'}}]}}]\n"
        )
        with running_alertmanager(config, folder) as alertmanager:
            started_at = time.time()
            for numbers in _batches():
                _post(alertmanager, numbers)
            return _wait_for_all(webhook, started_at)


def _post(alertmanager: Alertmanager, numbers: Sequence[int]) -> None:
    alerts = [{"labels": _make_labels(number)} for number in numbers]
    request = urllib.request.Request(
        f"{alertmanager.url}/api/v2/alerts",
        data=orjson.dumps(alerts),
        headers={"Content-Type": "application/json"},
    )
    urllib.request.urlopen(request, timeout=60).close()


def _measure_moirae() -> float:
    """Messages per second of the process of notifications."""
    with temporary_folder() as folder, running_webhook(folder) as webhook:
        workspace = _STORM_WORKSPACE.format(url=webhook.url, route=_ROUTE)
        with temporary_workspace(workspace) as root:
            settings = load_settings_from_environment(root / "moirae.yaml")
            with database.connect_database(settings, "benchmark") as connection:
                gateway = AlertGateway(connection)
                with _notifying(root):
                    gateway.put([make_storm_alert(_GROUPS)])
                    _wait(webhook, 1)  # the process has started
                    started_at = time.time()
                    for numbers in _batches():
                        gateway.put([make_storm_alert(number) for number in numbers])
                    return _wait_for_all(webhook, started_at, warm_up=1)


@contextmanager
def _notifying(root: Path) -> Iterator[None]:
    command = [sys.executable, "-m", "moirae", "run", "notify", "--workspace", str(root)]
    with (root / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            yield
        finally:
            process.terminate()
            process.wait(60)


def _batches() -> Iterator[range]:
    return (range(start, start + _BATCH) for start in range(0, _GROUPS, _BATCH))


def _make_labels(number: int) -> dict[str, str]:
    return {"alertname": "Storm", "host": f"h{number}", "severity": "ticket"}


def make_storm_alert(number: int) -> tuple[AlertDescriptionRow, AlertLifetimeRow]:
    """An alert that fires, of a group of its own."""
    now = datetime.now(UTC)
    alert_id = uuid5(_NAMESPACE, str(number))
    description = AlertDescriptionRow(
        id=alert_id,
        eid=alert_id,
        rule="bench/Storm",
        version="v",
        fingerprint=str(number),
        key={"host": f"h{number}"},
        labels={"alertname": "Storm", "severity": "ticket"},
        annotations={},
    )
    lifetime = AlertLifetimeRow(
        state="firing",
        starts_at=now,
        fired_at=now,
        last_at=now,
        ends_at=None,
        events=1,
        settled=None,
    )
    return description, lifetime


def _wait_for_all(webhook: Webhook, started_at: float, warm_up: int = 0) -> float:
    """Messages per second from a time until all have come. `warm_up`: those from before."""
    _wait(webhook, _GROUPS + warm_up)
    received_at: float = max(message["at"] for message in webhook.read())
    return _GROUPS / (received_at - started_at)


def _wait(webhook: Webhook, messages: int) -> None:
    deadline = time.monotonic() + _TIMEOUT
    while webhook.count() < messages:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{webhook.count()} of {messages} messages have come")
        time.sleep(0.2)
