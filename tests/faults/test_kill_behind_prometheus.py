"""kill -9 of Prometheus, of the server and of the live process, and the network cut, while samples are
written: what Prometheus holds in the end is archived, each sample once.

Prometheus does not send again what it had not sent when it was killed, though it holds it:
`moirae import prometheus` brings it.
"""

import itertools
import json
import os
import random
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest
from deltalake import DeltaTable

from archiver.threads import start_daemon
from moirae.services import tokens
from sql.archive import UnitGateway
from tests.alertmanager import find_program
from tests.faults.harness import Stage, kill, workspace
from tests.processes import find_port

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(find_program("prometheus") is None, reason="make alertmanager fetches it"),
]

SEED = int(os.environ.get("MOIRAE_FAULT_SEED", "1"))
_KILLS = 20
_SERIES = 50
_WORKSPACE = """
home: .moirae
server: {{listen: "127.0.0.1:{port}"}}
streams:
  node:
    columns: {{ts: timestamp, metric: string, value: double, n: string}}
    time: ts
    key: [metric]
    lateness: 10s
    source: {{remote_write: true, match: load}}
rules: [rules.yaml]
"""
_RULES = """
groups:
- name: load
  rules:
  - alert: Negative
    expr: SELECT n, ts, value FROM node WHERE value < 0
    key: [n]
"""
_PROMETHEUS = """
global: {{scrape_interval: 200ms, scrape_timeout: 200ms, external_labels: {{site: north}}}}
scrape_configs:
- job_name: node
  static_configs: [{{targets: ["127.0.0.1:{exporter}"]}}]
remote_write:
- url: http://127.0.0.1:{proxy}/api/v1/write
  authorization: {{credentials_file: token}}
  queue_config: {{batch_send_deadline: 200ms, min_backoff: 30ms, max_backoff: 500ms}}
"""


class _Exporter(BaseHTTPRequestHandler):
    """Gauges whose values change with each scrape."""

    scrapes = itertools.count()

    def do_GET(self) -> None:
        scrape = next(self.scrapes)
        lines = [f'load{{n="{n}"}} {scrape + n / 1000}\n' for n in range(_SERIES)]
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write("".join(lines).encode())

    def log_message(self, *_: Any) -> None:
        """Nothing is logged."""


class _Proxy:
    """Passes connections on to the server, until they are cut."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._is_cut = threading.Event()
        start_daemon(self._accept, "proxy")

    def cut(self, seconds: float) -> None:
        """Break all connections, and refuse new ones for a time."""
        self._is_cut.set()
        for connection in list(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        time.sleep(seconds)
        self._is_cut.clear()

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            server = None
            with suppress(OSError):
                if not self._is_cut.is_set():
                    server = socket.create_connection(("127.0.0.1", self._target))
            if server is None:
                client.close()
                continue
            for source, sink in ((client, server), (server, client)):
                start_daemon(partial(self._pump, source, sink), "proxied connection")

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        self._open.add(source)
        with suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
        self._open.discard(source)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


class _Prometheus:
    """Prometheus on a folder, which is killed and started again."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.port = find_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        program = find_program("prometheus")
        assert program is not None
        command = [program, "--config.file=prometheus.yml", "--storage.tsdb.path=tsdb"]
        command.append(f"--web.listen-address=127.0.0.1:{self.port}")
        with (self._root / "prometheus.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._root)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def read(self) -> set[tuple[int, str, float]]:
        """All samples that it holds: milliseconds, label `n` and value."""
        query = urllib.parse.urlencode({"query": "load[1h]"})
        with urllib.request.urlopen(f"{self.url}/api/v1/query?{query}", timeout=60) as answer:
            result = json.load(answer)["data"]["result"]
        return {
            (round(ts * 1000), series["metric"]["n"], float(value))
            for series in result
            for ts, value in series["values"]
        }

    def is_ready(self) -> bool:
        with suppress(OSError):
            urllib.request.urlopen(f"{self.url}/-/ready", timeout=5).close()
            return True
        return False


@contextmanager
def _behind_prometheus() -> Iterator[tuple[Stage, _Prometheus, _Proxy, ThreadingHTTPServer]]:
    port = find_port()
    exporter = ThreadingHTTPServer(("127.0.0.1", 0), _Exporter)
    start_daemon(exporter.serve_forever, "exporter")
    proxy = _Proxy(port)
    with workspace(_WORKSPACE.format(port=port), _RULES) as root:
        system = Stage(root, SEED)
        (root / "token").write_text(tokens.create_token(system.connection, "p", "source"))
        configuration = _PROMETHEUS.format(exporter=exporter.server_port, proxy=proxy.port)
        (root / "prometheus.yml").write_text(configuration)
        prometheus = _Prometheus(root)
        try:
            prometheus.start()
            yield system, prometheus, proxy, exporter
        finally:
            prometheus.kill()
            exporter.shutdown()
            system.end()


def _kill_role(system: Stage, role: str) -> None:
    def find_and_kill() -> bool:
        process: psutil.Process | None = system.process(role)
        return kill(process)

    system.wait(find_and_kill, 240)


def _await_progress(system: Stage) -> None:
    before = system.archived_units()
    system.wait(lambda: system.archived_units() > before, 240)


def _import(system: Stage, prometheus: _Prometheus) -> dict[str, Any]:
    command = [sys.executable, "-m", "moirae", "import", "prometheus", prometheus.url]
    options = ["--from", "1h", "-o", "json", "--workspace", str(system.root / "moirae.yaml")]
    done = subprocess.run([*command, *options], capture_output=True, timeout=250, check=True)
    imported: dict[str, Any] = json.loads(done.stdout)
    return imported


def test_no_sample_is_lost_or_doubled() -> None:
    rng = random.Random(SEED)
    with _behind_prometheus() as (system, prometheus, proxy, exporter):
        system.up()
        system.wait(lambda: system.archived_units() > 0, 240)
        for number in range(_KILLS):
            _await_progress(system)
            time.sleep(rng.uniform(0, 2))
            fault = ("prometheus", "server", "live", "network")[number % 4]
            if fault == "prometheus":
                prometheus.kill()
                prometheus.start()
            elif fault == "network":
                proxy.cut(rng.uniform(1, 5))
            else:
                _kill_role(system, fault)
            print(f"fault {number + 1}: {fault}", flush=True)
        _await_progress(system)
        exporter.shutdown()
        exporter.server_close()
        time.sleep(3)  # for the last samples to be sent
        system.wait(prometheus.is_ready, 60)
        held = prometheus.read()
        imported = _import(system, prometheus)
        assert imported["rows"]["node"] == len(held)
        system.down()
        system.drain()
        table = DeltaTable(system.root / ".moirae" / "archive" / "streams" / "node")
        rows = table.to_pyarrow_table(columns=["ts", "n", "value", "_late"]).to_pylist()
        archived = [(round(row["ts"].timestamp() * 1000), row["n"], row["value"]) for row in rows]
        streams = UnitGateway(system.connection).sum_by_stream()
        (counts,) = [row for row in streams if row.stream == "node"]
        assert counts.read == counts.archived + counts.duplicates
    lost = held - set(archived)
    print(
        f"{_KILLS} faults, seed {SEED}: Prometheus holds {len(held)} samples; {len(archived)} are "
        f"archived, {counts.duplicates} came twice, {len(held) - counts.duplicates} by import alone"
    )
    assert len(archived) == len(set(archived)) == counts.archived, "a sample is archived twice"
    assert not lost, f"{len(lost)} samples that Prometheus holds are not archived"
