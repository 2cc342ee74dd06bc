"""The real Prometheus posts its alerts, writes its samples, and is asked for older ones, as the how-to
says: Debian's with remote write 1.0, version 3 with 2.0. The real Alertmanager notifies of alerts.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from archiver.threads import start_daemon
from tests.alertmanager import find_program, running_alertmanager
from tests.commands import Commands
from tests.processes import find_port
from tests.waiting import wait_until

pytestmark = [pytest.mark.services, pytest.mark.slow]

_TIMEOUT = 300.0  # seconds
_WORKSPACE = """
home: .moirae
server: {{listen: "127.0.0.1:{port}"}}
streams:
  node:
    columns: {{ts: timestamp, metric: string, value: double, instance: string}}
    time: ts
    key: [metric, instance]
    lateness: 2s
    source: {{remote_write: true, match: node_load1}}
"""
_RULES = """
groups:
- name: node
  rules:
  - alert: HighLoad
    external: true
    context:
      busy: {sql: "SELECT metric FROM node WHERE instance = event.instance AND value > 5", within: 1m}
"""
_SCRAPING = """
global: {{scrape_interval: 1s, evaluation_interval: 1s, external_labels: {{site: north}}}}
rule_files: [rules.yml]
scrape_configs:
- job_name: node
  static_configs: [{{targets: ["127.0.0.1:{exporter}"]}}]
alerting:
  alertmanagers:
"""
_ALERTS_DIRECTLY = """\
  - static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
    authorization: {{credentials_file: token}}
"""
_ALERTS_NOTIFIED = """\
  - static_configs: [{{targets: ["{alertmanager}"]}}]
"""
_REMOTE_WRITE = """
remote_write:
- url: http://127.0.0.1:{port}/api/v1/write
  authorization: {{credentials_file: token}}
"""
# By program: what remote write of the configuration has, too.
_PROGRAMS = {
    "prometheus": "",
    "prometheus3": "  protobuf_message: io.prometheus.write.v2.Request\n",
}
_ALERTMANAGER = """
route: {{receiver: both, group_by: [...], group_wait: 0s, group_interval: 1s}}
receivers:
- name: both
  webhook_configs:
  - url: http://127.0.0.1:{port}/api/v2/alerts
    http_config: {{authorization: {{credentials_file: {token}}}}}
  - url: http://127.0.0.1:{recorder}/
"""
_PROMETHEUS_RULES = """
groups:
- name: node
  rules:
  - alert: HighLoad
    expr: node_load1 > 5
    labels: {severity: page}
    annotations: {summary: "load is {{ $value }}"}
"""


class _Exporter(BaseHTTPRequestHandler):
    """An exporter of one gauge."""

    load = 1.0

    def do_GET(self) -> None:
        body = f"# TYPE node_load1 gauge\nnode_load1 {self.load}\n".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing is logged."""


class _Recorder(BaseHTTPRequestHandler):
    """A receiver of webhooks that keeps the alerts of notifications."""

    notified: ClassVar[list[dict[str, Any]]] = []

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        self.notified.extend(json.loads(content)["alerts"])
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Nothing is logged."""


class _Loads(BaseHTTPRequestHandler):
    """An exporter of the load of hosts."""

    loads: ClassVar[dict[str, float]] = {}

    def do_GET(self) -> None:
        lines = [f'load{{host="{host}"}} {load}\n' for host, load in self.loads.items()]
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write("".join(lines).encode())

    def log_message(self, *_: Any) -> None:
        """Nothing is logged."""


@contextmanager
def _running(command: list[str], log: Path) -> Iterator[Callable[[Callable[[], bool]], None]]:
    """A process; yields a function that waits for a condition while it runs."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=log.parent)

    def wait(condition: Callable[[], bool]) -> None:
        def is_met() -> bool:
            assert process.poll() is None, log.read_text()[-3000:]
            return condition()

        wait_until(is_met, _TIMEOUT)

    try:
        yield wait
    finally:
        process.terminate()
        process.wait(60)


@pytest.mark.parametrize("name", _PROGRAMS)
def test_alerts_and_samples_of_prometheus(name: str, public_folder: Path) -> None:
    program = find_program(name)
    if program is None:
        pytest.skip("`make alertmanager` fetches Prometheus, `make prometheus3` builds version 3")
    root = public_folder / name
    root.mkdir()
    port, exporter_port, own_port = find_port(), find_port(), find_port()
    (root / "rules").mkdir()
    (root / "moirae.yaml").write_text(_WORKSPACE.format(port=port))
    (root / "rules" / "node.yaml").write_text(_RULES)
    remote_write = _REMOTE_WRITE.format(port=port) + _PROGRAMS[name]
    configuration = _SCRAPING.format(exporter=exporter_port)
    configuration += _ALERTS_DIRECTLY.format(port=port) + remote_write
    (root / "prometheus.yml").write_text(configuration)
    (root / "rules.yml").write_text(_PROMETHEUS_RULES)
    exporter = ThreadingHTTPServer(("127.0.0.1", exporter_port), _Exporter)
    start_daemon(exporter.serve_forever, "exporter")
    _Exporter.load = 1.0
    up = [sys.executable, "-m", "moirae", "up", "--parent", str(os.getpid())]
    prometheus = [program, "--config.file=prometheus.yml", "--storage.tsdb.path=tsdb"]
    prometheus.append(f"--web.listen-address=127.0.0.1:{own_port}")
    with Commands(root) as commands, _running(up, root / "up.log") as wait_for_workspace:

        def list_alerts() -> list[dict[str, Any]]:
            listed: list[dict[str, Any]] = commands.json("alerts", "list", "--rule", "HighLoad")
            return listed

        def count_duplicates() -> int:
            accounting = commands.json("status")["streams"]["node"]["accounting"]
            assert accounting["read"] == accounting["archived"] + accounting["duplicates"]
            return int(accounting["duplicates"])

        token = commands.json("tokens", "create", "prometheus", "--role", "source")["token"]
        (root / "token").write_text(token)
        with _running(prometheus, root / "prometheus.log") as wait:
            wait_for_workspace(lambda: commands.json("status")["accounting"]["archived"] > 0)
            _Exporter.load = 9.0
            wait(lambda: [alert["state"] for alert in list_alerts()] == ["firing"])
            (first,) = list_alerts()
            assert first["rule"] == "external/HighLoad"
            assert first["labels"]["severity"] == "page"
            assert first["annotations"] == {"summary": "load is 9"}
            commands.output("alerts", "resolve", first["id"], "fan replaced", "--tag", "fan")
            _Exporter.load = 1.0
            wait(lambda: [alert["state"] for alert in list_alerts()] == ["resolved"])
            _Exporter.load = 9.0
            wait(lambda: len(list_alerts()) == 2)
            second = next(alert for alert in list_alerts() if alert["id"] != first["id"])
            wait(lambda: "fan replaced" in commands.output("similar", second["eid"]))
            # Samples come in batches, after the alert: its context is settled once they are there.
            wait(
                lambda: (
                    {"metric": "node_load1"}
                    in commands.json("events", "show", second["eid"])["contexts"]["busy"]
                )
            )
            url = f"http://127.0.0.1:{own_port}"
            imported = commands.json("import", "prometheus", url, "--from", "1h")["rows"]["node"]
            again = commands.json("import", "prometheus", url, "--from", "1h", "--match", "up")
        assert imported > 10 and not again["rows"]
        # Each imported sample comes by remote write, too: before it, or when Prometheus ends.
        wait_for_workspace(lambda: count_duplicates() == imported)
        status = commands.json("status")
    assert status["unmatched"]["unmatched"] > 0
    streams = status["streams"]
    accounting = streams["external_alerts"]["accounting"]
    assert accounting["read"] == accounting["archived"] > 0, json.dumps(accounting)


@pytest.mark.parametrize("directly", [False, True], ids=["webhook", "webhook and Prometheus"])
def test_alerts_through_alertmanager(directly: bool, public_folder: Path) -> None:
    """What Alertmanager notifies of is there once and in the same order, also if it comes twice."""
    program = find_program("prometheus")
    if program is None or find_program("prometheus-alertmanager") is None:
        pytest.skip("`make alertmanager` fetches Prometheus and Alertmanager")
    root = public_folder / ("both" if directly else "webhook")
    root.mkdir()
    port, own_port = find_port(), find_port()
    hosts = ["d", "a", "e", "b", "c"]
    _Loads.loads = dict.fromkeys(hosts, 1.0)
    _Recorder.notified = []
    exporter = ThreadingHTTPServer(("127.0.0.1", 0), _Loads)
    recorder = ThreadingHTTPServer(("127.0.0.1", 0), _Recorder)
    start_daemon(exporter.serve_forever, "exporter")
    start_daemon(recorder.serve_forever, "recorder")
    (root / "moirae.yaml").write_text(_WORKSPACE.format(port=port))
    alerts = [{"alert": f"High {host}", "expr": f'load{{host="{host}"}} > 5'} for host in hosts]
    (root / "rules.yml").write_text(json.dumps({"groups": [{"name": "loads", "rules": alerts}]}))
    notifying = _ALERTMANAGER.format(port=port, recorder=recorder.server_port, token=root / "token")
    up = [sys.executable, "-m", "moirae", "up", "--parent", str(os.getpid())]
    prometheus = [program, "--config.file=prometheus.yml", "--storage.tsdb.path=tsdb"]
    prometheus.append(f"--web.listen-address=127.0.0.1:{own_port}")
    with Commands(root) as commands, _running(up, root / "up.log") as wait_for_workspace:

        def list_alerts() -> list[dict[str, Any]]:
            listed: list[dict[str, Any]] = commands.json("alerts", "list")
            return listed

        def count_notified(status: str) -> int:
            notified = [alert for alert in _Recorder.notified if alert["status"] == status]
            return len({alert["labels"]["alertname"] for alert in notified})

        token = commands.json("tokens", "create", "alertmanager", "--role", "source")["token"]
        (root / "token").write_text(token)
        wait_for_workspace(lambda: commands.json("status")["processes"] != [])
        with running_alertmanager(notifying, root) as alertmanager:
            target = alertmanager.url.removeprefix("http://")
            alerting = _SCRAPING.format(exporter=exporter.server_port)
            alerting += _ALERTS_NOTIFIED.format(alertmanager=target)
            alerting += _ALERTS_DIRECTLY.format(port=port) if directly else ""
            (root / "prometheus.yml").write_text(alerting)
            with _running(prometheus, root / "prometheus.log") as wait:
                for number, host in enumerate(hosts, start=1):
                    _Loads.loads[host] = 9.0
                    wait(lambda number=number: count_notified("firing") == number)  # type: ignore[misc]
                wait(lambda: len(list_alerts()) == len(hosts))
                assert {alert["state"] for alert in list_alerts()} == {"firing"}
                _Loads.loads = dict.fromkeys(hosts, 1.0)
                wait(lambda: {alert["state"] for alert in list_alerts()} == {"resolved"})
                wait(lambda: count_notified("resolved") == len(hosts))
        listed = sorted(list_alerts(), key=lambda alert: alert["starts_at"])
    resolved = [alert for alert in _Recorder.notified if alert["status"] == "resolved"]
    resolved.sort(key=lambda alert: alert["startsAt"])
    assert [alert["labels"]["alertname"] for alert in listed] == [f"High {host}" for host in hosts]
    assert [alert["labels"] for alert in listed] == [alert["labels"] for alert in resolved]
    for field, theirs in (("starts_at", "startsAt"), ("ends_at", "endsAt")):
        ours = [datetime.fromisoformat(alert[field]) for alert in listed]
        assert ours == [datetime.fromisoformat(alert[theirs]) for alert in resolved]
