"""Real senders: rsyslog over TCP and TLS; the OpenTelemetry Collector, with files and metrics of a
machine, by OTLP and by remote write; Telegraf and the client that Promtail is made of, which push to
Loki. What they had is there once, also if the server is killed meanwhile.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from moirae.runtime.storage.landing_folder import LandingFolder
from tests.certificates import make_certificate
from tests.peers import find_libraries, find_program
from tests.processes import find_port
from tests.served import Served, serve
from tests.waiting import wait_until

pytestmark = [pytest.mark.services, pytest.mark.slow, pytest.mark.timeout(900)]

_LINES = 2_000
_TIMEOUT = 120.0  # seconds
_SYSLOG = """
server: {{listen: "127.0.0.1:0"}}
streams:
  plain:
    columns: {{ts: {{type: timestamp, from: time}}}}
    time: ts
    source: {{syslog: {{listen: "tcp://127.0.0.1:{tcp}"}}}}
  secured:
    columns: {{ts: {{type: timestamp, from: time}}}}
    time: ts
    source:
      syslog:
        listen: "tls://127.0.0.1:{tls}"
        cert: {folder}/cert.pem
        key: {folder}/key.pem
"""
_RSYSLOG = """
module(load="imfile" PollingInterval="1")
global(workDirectory="{folder}" DefaultNetstreamDriverCAFile="{folder}/cert.pem")
input(type="imfile" file="{folder}/app.log" tag="app:" ruleset="out")
ruleset(name="out") {{
  action(type="omfwd" target="127.0.0.1" port="{tcp}" protocol="tcp" TCP_Framing="octet-counted"
         queue.type="LinkedList" queue.filename="plain" action.resumeRetryCount="-1"
         action.resumeInterval="1")
  action(type="omfwd" target="127.0.0.1" port="{tls}" protocol="tcp" TCP_Framing="octet-counted"
         StreamDriver="gtls" StreamDriverMode="1" StreamDriverAuthMode="x509/certvalid"
         queue.type="LinkedList" queue.filename="secured" action.resumeRetryCount="-1"
         action.resumeInterval="1")
}}
"""
_OTLP = """
server: {listen: "127.0.0.1:0"}
streams:
  lines:
    columns: {ts: timestamp, body: string, file: {type: string, from: attributes.log.file.name}}
    time: ts
    source: {otlp: logs}
  points:
    columns: {ts: timestamp, metric: string, value: double}
    time: ts
    key: [metric]
    source: {otlp: metrics}
  samples:
    columns: {ts: timestamp, metric: string, value: double}
    time: ts
    key: [metric]
    source: {remote_write: true}
"""
_COLLECTOR = """
receivers:
  file_log: {{include: ["{folder}/app.log"], start_at: beginning}}
  host_metrics: {{collection_interval: 1s, scrapers: {{load: {{}}, memory: {{}}}}}}
processors: {{batch: {{timeout: 200ms, send_batch_size: 500}}}}
exporters:
  otlp_http:
    endpoint: {url}
    headers: {{Authorization: "Bearer {token}"}}
    retry_on_failure: {{initial_interval: 500ms, max_interval: 1s}}
  prometheusremotewrite:
    endpoint: {url}/api/v1/write
    headers: {{Authorization: "Bearer {token}"}}
    {version}
    retry_on_failure: {{initial_interval: 500ms, max_interval: 1s}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines:
    logs: {{receivers: [file_log], processors: [batch], exporters: [otlp_http]}}
    metrics:
      receivers: [host_metrics]
      processors: [batch]
      exporters: [otlp_http, prometheusremotewrite]
"""
_LOKI = """
server: {listen: "127.0.0.1:0"}
streams:
  entries:
    columns: {ts: timestamp, line: string, path: string}
    time: ts
    source: {loki: true, match: '{__name="tail"}'}
  pushed:
    columns: {ts: timestamp, line: string}
    time: ts
    source: {loki: true, match: '{job="app"}'}
"""
_TELEGRAF = """
[agent]
  interval = "200ms"
  flush_interval = "200ms"
  omit_hostname = true
[[inputs.tail]]
  files = ["{folder}/app.log"]
  from_beginning = true
  data_format = "value"
  data_type = "string"
[[outputs.loki]]
  domain = "{url}"
  gzip_request = true
  http_headers = {{"Authorization" = "Bearer {token}"}}
"""


@contextmanager
def _running(command: list[str], folder: Path, **environment: str) -> Iterator[None]:
    log = folder / "peer.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=folder, stdout=output, stderr=output, env={**os.environ, **environment}
        )
    try:
        yield
        assert process.poll() is None, log.read_text()[-3000:]
    finally:
        process.terminate()
        process.wait(60)


def _read_landed(served: Served, stream: str) -> list[bytes]:
    batches = LandingFolder(served.settings.home, stream).pending_batches()
    return [line for batch in batches for line in batch.path.read_bytes().splitlines()]


def _read_rows(served: Served, stream: str) -> list[dict[str, Any]]:
    return list(map(orjson.loads, _read_landed(served, stream)))


def _write_lines(folder: Path, start: int, count: int) -> list[str]:
    lines = [f"line {number:06d}" for number in range(start, start + count)]
    with (folder / "app.log").open("a") as file:
        file.writelines(f"{line}\n" for line in lines)
    return lines


def test_rsyslog_sends_a_file_over_tcp_and_tls(public_folder: Path) -> None:
    program, libraries = find_program("rsyslogd"), find_libraries()
    if program is None or libraries is None:
        pytest.skip("`make peers` fetches rsyslog")
    folder = public_folder
    make_certificate(folder)
    ports = {"tcp": find_port(), "tls": find_port()}
    (folder / "rsyslog.conf").write_text(_RSYSLOG.format(folder=folder, **ports))
    lines = _write_lines(folder, 0, _LINES)
    command = [program, "-n", "-f", "rsyslog.conf", "-i", str(folder / "pid")]
    command += ["-M", str(libraries / "rsyslog")]
    text = _SYSLOG.format(folder=folder, **ports)
    with (
        serve(text, "groups: []\n") as served,
        _running(command, folder, LD_LIBRARY_PATH=str(libraries)),
    ):

        def count(stream: str) -> int:
            return len(set(_read_landed(served, stream)))

        for stream in ("plain", "secured"):
            wait_until(lambda stream=stream: count(stream) == _LINES, _TIMEOUT)  # type: ignore[misc]
        served.restart()  # kill -9: rsyslog keeps what follows until the server is back
        lines += _write_lines(folder, _LINES, _LINES)
        for stream in ("plain", "secured"):
            wait_until(lambda stream=stream: count(stream) >= 2 * _LINES - 1, _TIMEOUT)  # type: ignore[misc]
            received = [
                line.decode().partition("app: ")[2] for line in _read_landed(served, stream)
            ]
            # The message that was on a connection whose other end had gone is lost, as promised.
            assert len(received) == len(set(received))
            assert set(lines) - set(received) <= {lines[_LINES]}


@pytest.mark.parametrize("version", [1, 2])
def test_collector_sends_a_file_and_metrics(version: int, public_folder: Path) -> None:
    program = find_program("otelcol")
    if program is None:
        pytest.skip("`make peers` builds the OpenTelemetry Collector")
    folder = public_folder / str(version)
    folder.mkdir()
    lines = _write_lines(folder, 0, _LINES)
    with serve(_OTLP, "groups: []\n") as served:
        protobuf = "protobuf_message: io.prometheus.write.v2.Request" if version == 2 else ""
        configuration = _COLLECTOR.format(
            folder=folder, url=served.url, token=served.tokens["source"], version=protobuf
        )
        (folder / "collector.yaml").write_text(configuration)
        command = [program, "--config=collector.yaml"]
        if version == 2:
            command.append("--feature-gates=exporter.prometheusremotewritexporter.enableSendingRW2")
        with _running(command, folder):

            def count() -> int:
                return len(_read_landed(served, "lines"))

            wait_until(lambda: count() == _LINES, _TIMEOUT)
            served.restart()  # kill -9
            lines += _write_lines(folder, _LINES, _LINES)
            wait_until(lambda: count() >= 2 * _LINES, _TIMEOUT)
            points = len(_read_rows(served, "points"))
            wait_until(lambda: len(_read_rows(served, "points")) > points + 10, _TIMEOUT)
        rows = _read_rows(served, "lines")
        points_by_metric = {row["metric"] for row in _read_rows(served, "points")}
        samples = _read_rows(served, "samples")
    assert sorted(row["body"] for row in rows) == lines
    assert {row["attributes.log.file.name"] for row in rows} == {"app.log"}
    assert {"system.cpu.load_average.1m", "system.memory.usage"} <= points_by_metric
    assert {"system_cpu_load_average_1m", "system_memory_usage_bytes"} <= {
        row["metric"] for row in samples
    }
    keys = [(row["ts"], *sorted((k, v) for k, v in row.items() if k != "value")) for row in samples]
    assert len(keys) == len(set(map(str, keys))), "a sample was stored twice"


def test_telegraf_pushes_a_file_to_loki(public_folder: Path) -> None:
    program = find_program("telegraf")
    if program is None:
        pytest.skip("`make peers` builds Telegraf")
    folder = public_folder / "loki"
    folder.mkdir()
    lines = _write_lines(folder, 0, _LINES)

    def read_lines(served: Served) -> list[str]:
        return [row["line"] for row in _read_rows(served, "entries")]

    with serve(_LOKI, "groups: []\n") as served:
        configuration = _TELEGRAF.format(
            folder=folder, url=served.url, token=served.tokens["source"]
        )
        (folder / "telegraf.conf").write_text(configuration)
        with _running([program, "--config", "telegraf.conf"], folder):
            wait_until(lambda: len(read_lines(served)) >= _LINES, _TIMEOUT)
            sent = [f'value="{line}" ' for line in lines]
            assert sorted(read_lines(served)) == sent
            assert {row["path"] for row in _read_rows(served, "entries")} == {f"{folder}/app.log"}
            served.restart()  # kill -9
            _write_lines(folder, _LINES, _LINES)
            wait_until(lambda: len(set(read_lines(served))) >= 2 * _LINES, _TIMEOUT)
        received = read_lines(served)
    # It sends the lines of an unanswered request again with further ones: other requests.
    assert len(received) <= 2 * _LINES + _LINES // 2


def test_client_of_loki_pushes_lines_once(public_folder: Path) -> None:
    """Protocol Buffers in a snappy block: what Promtail sends."""
    program = find_program("lokiclient")
    if program is None:
        pytest.skip("`make peers` builds the client")
    lines = [f"line {number:06d}" for number in range(2 * _LINES)]
    with serve(_LOKI, "groups: []\n") as served:

        def read_lines() -> list[str]:
            return [row["line"] for row in _read_rows(served, "pushed")]

        command = [program, f"{served.url}/loki/api/v1/push", served.tokens["source"]]
        client = subprocess.Popen(command, stdin=subprocess.PIPE, text=True)
        assert client.stdin is not None
        try:
            client.stdin.write("".join(f"{line}\n" for line in lines[:_LINES]))
            client.stdin.flush()
            wait_until(lambda: len(read_lines()) >= _LINES, _TIMEOUT)
            served.restart()  # kill -9
            client.stdin.write("".join(f"{line}\n" for line in lines[_LINES:]))
            client.stdin.close()
            assert client.wait(120) == 0  # it has sent all
        finally:
            client.kill()
            client.wait()
        assert sorted(read_lines()) == lines
