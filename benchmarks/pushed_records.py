"""NB1, NB2: records by remote write and by OTLP, archived, ÷ flat JSON files, per processor second.

One workspace. In turns it gets the same number of rows as files, as samples by remote write 1.0 and
as log records by OTLP; files and requests have equally many rows. Processor seconds are those of all
its processes until the rows are archived, less what they take while nothing comes.
"""

import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import orjson
import pyarrow as pa
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

import sql
from benchmarks.fixtures import (
    moirae_up,
    processor_seconds,
    temporary_workspace,
    workspace_processes,
)
from benchmarks.results import BenchmarkResult, make_result, rounded_median
from benchmarks.timing import time_noise_kernel
from moirae.config import Settings, load_settings_from_environment
from moirae.runtime import database
from moirae.server.protocols.write_messages import load_messages
from moirae.services import tokens
from sql.archive import UnitGateway

_REPETITIONS = 3
_ROWS = 2_000  # of a file or request: Prometheus sends so many samples at once
_PARTS = 120  # of a repetition
_IDLE_SECONDS = 20.0
_TIMEOUT = 300.0  # seconds
_START = 1_767_225_600_000  # milliseconds
_MODES = ("idle", "user", "system", "iowait", "irq", "nice", "steal", "softirq")
_WORKSPACE = """
home: .moirae
server: {{listen: "127.0.0.1:{port}"}}
streams:
  files:
    columns: {{ts: timestamp, metric: string, value: double, instance: string, cpu: string, mode: string}}
    time: ts
    key: [instance]
    source: {{files: landing/*.jsonl}}
  samples:
    columns: {{ts: timestamp, metric: string, value: double, instance: string, cpu: string, mode: string}}
    time: ts
    key: [instance]
    source: {{remote_write: true}}
  logs:
    columns:
      ts: timestamp
      service: {{type: string, from: resource.service.name}}
      severity: string
      body: string
      route: {{type: string, from: attributes.http.route}}
      status: {{type: int, from: attributes.status}}
    time: ts
    key: [service]
    source: {{otlp: logs}}
"""


def run() -> list[BenchmarkResult]:
    """Measure both in one run."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with temporary_workspace(_WORKSPACE.format(port=port)) as root:
        (root / "landing").mkdir()
        settings = load_settings_from_environment(root / "moirae.yaml")
        with (
            database.connect_database(settings, "benchmark") as connection,
            moirae_up(settings, root / "log"),
        ):
            token = tokens.create_token(connection, "producer", "source")
            url = f"http://127.0.0.1:{port}"
            headers = {"Authorization": f"Bearer {token}"}
            with httpx.Client(base_url=url, headers=headers, timeout=60) as client:
                return _measure(_Workspace(root, settings, connection, client))


@dataclass
class _Workspace:
    """The running workspace. `part`: the number of the next file or request."""

    root: Path
    settings: Settings
    connection: sql.Connection
    client: httpx.Client
    part: int = 0

    def measure(self, stream: str, send: Callable[[int], None], idle: float) -> float:
        """Rows a processor second of a stream. `idle`: processor seconds a second without rows."""
        archived = self._count(stream)
        processes = workspace_processes(self.settings)
        used, started_at = processor_seconds(processes), time.monotonic()
        for _ in range(_PARTS):
            send(self.part)
            self.part += 1
        while self._count(stream) < archived + _PARTS * _ROWS:
            if time.monotonic() > started_at + _TIMEOUT:
                raise RuntimeError(f"rows of {stream} are not archived within {_TIMEOUT:g} s")
            time.sleep(0.05)
        seconds = time.monotonic() - started_at
        return _PARTS * _ROWS / (processor_seconds(processes) - used - idle * seconds)

    def measure_idle(self) -> float:
        processes = workspace_processes(self.settings)
        used = processor_seconds(processes)
        time.sleep(_IDLE_SECONDS)
        return (processor_seconds(processes) - used) / _IDLE_SECONDS

    def _count(self, stream: str) -> int:
        rows = UnitGateway(self.connection).sum_by_stream()
        return sum(row.archived for row in rows if row.stream == stream)

    def write_file(self, part: int) -> None:
        hidden = self.root / "landing" / f".{part:06d}"
        hidden.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in _make_rows(part)))
        hidden.rename(self.root / "landing" / f"{part:06d}.jsonl")

    def write_samples(self, part: int) -> None:
        content = pa.Codec("snappy").compress(_make_samples(part), asbytes=True)
        self._post("/api/v1/write", content, {"Content-Encoding": "snappy"})

    def write_logs(self, part: int) -> None:
        self._post("/v1/logs", _make_logs(part), {})

    def _post(self, path: str, content: bytes, headers: dict[str, str]) -> None:
        """Send until it is accepted: an overloaded server answers 503."""
        headers = {"Content-Type": "application/x-protobuf", **headers}
        while True:
            answer = self.client.post(path, content=content, headers=headers)
            if answer.status_code != 503:
                answer.raise_for_status()
                return
            time.sleep(0.5)


def _measure(workspace: _Workspace) -> list[BenchmarkResult]:
    senders = {
        "files": workspace.write_file,
        "samples": workspace.write_samples,
        "logs": workspace.write_logs,
    }
    _await_start(workspace)
    for stream, send in senders.items():  # to warm up
        workspace.measure(stream, send, 0.0)
    rates: dict[str, list[float]] = {stream: [] for stream in senders}
    noise: list[float] = []
    time.sleep(_IDLE_SECONDS)  # what the warm-up has left to do
    idle = workspace.measure_idle()
    for repetition in range(_REPETITIONS):
        noise.append(time_noise_kernel())
        for stream, send in senders.items():
            rates[stream].append(workspace.measure(stream, send, idle))
        shown = ", ".join(f"{stream} {rates[stream][-1]:,.0f}" for stream in senders)
        print(f"{repetition + 1}/{_REPETITIONS}: rows/s/core: {shown}", file=sys.stderr)
    return [
        _compare("NB1", "samples by remote write", "samples", 0.8, rates, noise),
        _compare("NB2", "log records by OTLP", "logs", 0.5, rates, noise),
    ]


def _compare(
    goal: str,
    name: str,
    stream: str,
    bound: float,
    rates: dict[str, list[float]],
    noise: list[float],
) -> BenchmarkResult:
    pairs = zip(rates[stream], rates["files"], strict=True)
    return make_result(
        goal,
        f"{name}, archived, ÷ flat JSON files, per processor second",
        [pushed / files for pushed, files in pairs],
        target=f"≥ {bound}",
        details={
            "rows/s/core": rounded_median(rates[stream], 0),
            "files, rows/s/core": rounded_median(rates["files"], 0),
        },
        noise=noise,
    )


def _await_start(workspace: _Workspace) -> None:
    deadline = time.monotonic() + _TIMEOUT
    while True:
        try:
            if workspace.client.get("/-/ready").status_code == 200:
                return
        except httpx.TransportError:
            pass
        if time.monotonic() > deadline:
            raise RuntimeError("the workspace does not start")
        time.sleep(0.2)


def _make_rows(part: int) -> list[dict[str, Any]]:
    """The samples of a part as rows."""
    seconds = _START // 1000 + 15 * part
    ts = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(seconds))
    return [{**_make_labels(n), "value": n * 1.5 + part, "ts": ts} for n in range(_ROWS)]


def _make_labels(number: int) -> dict[str, str]:
    return {
        "metric": "node_cpu_seconds_total",
        "cpu": str(number % 16),
        "instance": f"host{number // 128}:9100",
        "mode": _MODES[number // 16 % 8],
    }


def _make_samples(part: int) -> bytes:
    messages = load_messages()
    request = messages.request()
    for number in range(_ROWS):
        series = messages.series()
        labels = _make_labels(number)
        labels["__name__"] = labels.pop("metric")
        for name, value in sorted(labels.items()):
            series.labels.add(name=name, value=value)
        series.samples.add(value=number * 1.5 + part, timestamp=_START + 15_000 * part)
        request.timeseries.append(series.SerializeToString())
    content: bytes = request.SerializeToString()
    return content


def _make_logs(part: int) -> bytes:
    request = ExportLogsServiceRequest()
    described = request.resource_logs.add()
    for name in ("service.name", "host.name"):
        described.resource.attributes.add(key=name).value.string_value = "checkout"
    records = described.scope_logs.add()
    for number in range(_ROWS):
        nanoseconds = (_START + 15_000 * part) * 1_000_000 + number * 1_000
        record = records.log_records.add(
            time_unix_nano=nanoseconds, observed_time_unix_nano=nanoseconds, severity_text="INFO"
        )
        record.body.string_value = f"GET /cart/{number} took {number % 77} ms"
        record.attributes.add(key="http.route").value.string_value = "/cart"
        record.attributes.add(key="status").value.int_value = 200
    content: bytes = request.SerializeToString()
    return content
