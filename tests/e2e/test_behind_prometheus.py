"""The page "Put Moirae behind Prometheus", as a new user with a Prometheus of five rules follows it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from archiver.threads import start_daemon
from tests.alertmanager import find_program
from tests.commands import Commands
from tests.processes import find_port
from tests.waiting import wait_until

pytestmark = [pytest.mark.services, pytest.mark.slow, pytest.mark.timeout(900)]

_PAGE = Path(__file__).parents[2] / "docs" / "howto" / "put-behind-prometheus.md"
_TIMEOUT = 300.0  # seconds
_EXISTING = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [rules.yml]
scrape_configs:
- job_name: node
  static_configs: [{{targets: ["127.0.0.1:{exporter}"]}}]
"""
_RULES = {
    "InstanceDown": "up == 0",
    "HighLoad": "node_load1 > 5",
    "Disk full": "node_filesystem_avail_bytes < 1e9",
    "MemoryPressure": "node_memory_available_bytes < 1e9",
    "NoBackup": "absent(backup_last_success)",
}
_METRICS = {
    "node_load1": 1.0,
    "node_filesystem_avail_bytes": 1e10,
    "node_memory_available_bytes": 1e10,
    "backup_last_success": 1.0,
}
_BROKEN = {
    "node_load1": 9.0,
    "node_filesystem_avail_bytes": 1e8,
    "node_memory_available_bytes": 1e8,
}


class _Exporter(BaseHTTPRequestHandler):
    metrics = _METRICS

    def do_GET(self) -> None:
        body = "".join(f"{name} {value}\n" for name, value in self.metrics.items()).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing is logged."""


def _read_blocks(port: int) -> list[str]:
    """The YAML of the page, with this machine's addresses."""
    blocks = re.findall(r"```yaml\n(.*?)```", _PAGE.read_text(), re.DOTALL)
    texts = []
    for block in blocks:
        indent = re.match(" *", block)
        assert indent is not None
        text = "\n".join(line.removeprefix(indent[0]) for line in block.splitlines())
        text = text.replace("moirae:8765", f"127.0.0.1:{port}")
        texts.append(text.replace("127.0.0.1:8765", f"127.0.0.1:{port}"))
    return texts


@contextmanager
def _started(command: list[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


def _count_archived(commands: Commands) -> int:
    node = commands.json("status")["streams"].get("node")  # None: the live process is starting
    return 0 if node is None else int(node["accounting"]["archived"])


def test_five_rules_of_an_existing_prometheus(public_folder: Path) -> None:
    program = find_program("prometheus")
    if program is None:
        pytest.skip("`make alertmanager` fetches Prometheus")
    exporter = ThreadingHTTPServer(("127.0.0.1", 0), _Exporter)
    start_daemon(exporter.serve_forever, "exporter")
    port = find_port()
    settings, alerting, _, _, streams, remote_write, external = _read_blocks(port)
    existing, folder = public_folder / "prometheus", public_folder / "moirae"
    existing.mkdir()
    folder.mkdir()
    rules = [{"alert": name, "expr": expr} for name, expr in _RULES.items()]
    (existing / "rules.yml").write_text(json.dumps({"groups": [{"name": "g", "rules": rules}]}))
    configuration = yaml.safe_load(_EXISTING.format(exporter=exporter.server_port))
    (existing / "prometheus.yml").write_text(yaml.safe_dump(configuration))
    command = [program, "--config.file=prometheus.yml", "--storage.tsdb.path=tsdb"]
    command.append("--storage.remote.flush-deadline=1s")  # at its end, when Moirae has gone
    command.append(f"--web.listen-address=127.0.0.1:{find_port()}")
    up = [sys.executable, "-m", "moirae", "up", "--parent", str(os.getpid())]
    with Commands(folder) as commands, _started(command, existing) as prometheus:
        began = time.monotonic()
        (folder / "moirae.yaml").write_text(settings)
        token = commands.output("tokens", "create", "prometheus", "--role", "source")
        with _started(up, folder):
            (existing / "moirae-token").write_text(token)
            configuration |= yaml.safe_load(alerting)
            (existing / "prometheus.yml").write_text(yaml.safe_dump(configuration))
            prometheus.send_signal(signal.SIGHUP)
            _Exporter.metrics = _BROKEN

            def list_alerts() -> dict[str, str]:
                listed = commands.json("alerts", "list")
                return {alert["labels"]["alertname"]: alert["state"] for alert in listed}

            broken = _RULES.keys() - {"InstanceDown"}
            wait_until(lambda: list_alerts() == dict.fromkeys(broken, "firing"), _TIMEOUT)
            print(f"first alerts after {time.monotonic() - began:.0f} s", flush=True)
            exporter.shutdown()
            exporter.server_close()
            wait_until(lambda: list_alerts().get("InstanceDown") == "firing", _TIMEOUT)
        # Then metrics, and what a rule file adds to an alert.
        (folder / "moirae.yaml").write_text(f"{settings}\n{streams}")
        (folder / "rules").mkdir()
        configuration |= yaml.safe_load(remote_write)
        (existing / "prometheus.yml").write_text(yaml.safe_dump(configuration))
        (folder / "rules" / "prometheus.yaml").write_text(external)
        assert "1 rule OK" in commands.output("rules", "check")
        with _started(up, folder):
            prometheus.send_signal(signal.SIGHUP)
            _Exporter.metrics = _METRICS
            exporter = ThreadingHTTPServer(("127.0.0.1", exporter.server_port), _Exporter)
            start_daemon(exporter.serve_forever, "exporter")
            archived = _count_archived(commands)
            wait_until(lambda: _count_archived(commands) > archived, _TIMEOUT)
            wait_until(lambda: "firing" not in list_alerts().values(), _TIMEOUT)
            _Exporter.metrics = _BROKEN

            def has_context() -> bool:
                listed = commands.json("alerts", "list", "--rule", "HighLoad")
                events = [commands.json("events", "show", alert["eid"]) for alert in listed]
                return any((event.get("contexts") or {}).get("busy") for event in events)

            wait_until(has_context, _TIMEOUT)
