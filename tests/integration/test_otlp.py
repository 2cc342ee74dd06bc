"""Logs and metrics as the exporters of OpenTelemetry's SDK send them, and entries as Promtail does."""

import gzip
import time
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource

from moirae.runtime.storage.landing_folder import LandingFolder
from tests.served import Served, serve_here

WORKSPACE = """
home: .moirae
server: {listen: "127.0.0.1:0"}
streams:
  logs:
    columns:
      ts: timestamp
      service: {type: string, from: resource.service.name}
      body: string
    time: ts
    source: {otlp: logs}
  queue:
    columns: {ts: timestamp, metric: string, value: double}
    time: ts
    key: [metric]
    source: {otlp: metrics, match: '{__name__="queue"}'}
  entries:
    columns: {ts: timestamp, app: string, line: string}
    time: ts
    source: {loki: true, match: '{app="shop"}'}
"""
RULES = "groups: []\n"
RESOURCE = Resource.create({"service.name": "checkout"})


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serve_here(WORKSPACE, RULES) as running:
        yield running


def _landed(served: Served, stream: str) -> list[dict[str, Any]]:
    batches = LandingFolder(served.settings.home, stream).pending_batches()
    return [
        orjson.loads(line) for batch in batches for line in batch.path.read_bytes().splitlines()
    ]


def _headers(served: Served) -> dict[str, str]:
    return {"Authorization": f"Bearer {served.tokens['source']}"}


@pytest.mark.slow
def test_exporter_of_logs_is_served(served: Served) -> None:
    exporter = OTLPLogExporter(
        f"{served.url}/v1/logs", headers=_headers(served), compression=Compression.Gzip
    )
    provider = LoggerProvider(RESOURCE)
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    provider.get_logger("shop").emit(
        timestamp=time.time_ns(), body="no disk", severity_text="ERROR", attributes={"disk": "sda"}
    )
    provider.shutdown()
    (row,) = _landed(served, "logs")
    assert (row["body"], row["severity"], row["scope"]) == ("no disk", "ERROR", "shop")
    assert (row["resource.service.name"], row["attributes.disk"]) == ("checkout", "sda")


@pytest.mark.slow
def test_exporter_of_metrics_is_served(served: Served) -> None:
    exporter = OTLPMetricExporter(f"{served.url}/v1/metrics", headers=_headers(served))
    reader = PeriodicExportingMetricReader(exporter, export_interval_millis=float("inf"))
    provider = MeterProvider([reader], RESOURCE)
    meter = provider.get_meter("shop")
    meter.create_counter("queue").add(7)
    meter.create_histogram("seconds").record(1.5)
    provider.force_flush()
    provider.shutdown()
    (row,) = _landed(served, "queue")
    assert (row["metric"], row["value"], row["temporality"]) == ("queue", 7, "cumulative")
    statement = "SELECT stream, reason, records FROM skipped_records"
    assert served.connection.execute(statement).fetchall() == [("", "histograms", 1)]


@pytest.mark.slow
def test_repeated_request_is_stored_once_and_wrong_ones_are_refused(served: Served) -> None:
    body = {"timeUnixNano": "1767225600000000000", "body": {"stringValue": "once"}}
    content = orjson.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [body, {}]}]}]})
    json_type = {"Content-Type": "application/json"}
    for sent, headers in (
        (content, json_type),
        (gzip.compress(content), {**json_type, "Content-Encoding": "gzip"}),
    ):
        answer = served.ask("POST", "/v1/logs", "source", content=sent, headers=headers)
        assert answer.status_code == 200
        assert answer.json()["partialSuccess"]["rejectedLogRecords"] == "1"
    assert sum(row["body"] == "once" for row in _landed(served, "logs")) == 1
    for headers, status in (({"Content-Type": "text/plain"}, 415), (json_type, 400)):
        refused = served.ask("POST", "/v1/logs", "source", content=b"{", headers=headers)
        assert refused.status_code == status
        assert refused.headers["content-type"] == "application/json" or status == 415
    refused = served.ask("POST", "/v1/logs", "source", content=b"{", headers=json_type)
    assert refused.json()["code"] == 3 and "no OTLP request" in refused.json()["message"]
    protobuf = {"Content-Type": "application/x-protobuf"}
    refused = served.ask("POST", "/v1/logs", None, content=b"", headers=protobuf)
    assert (refused.status_code, refused.headers["content-type"]) == (401, protobuf["Content-Type"])
    assert refused.content.startswith(b"\x08\x10\x12")  # unauthenticated
    bomb = gzip.compress(bytes(64 << 20))
    headers = {**json_type, "Content-Encoding": "gzip"}
    assert (
        served.ask("POST", "/v1/logs", "source", content=bomb, headers=headers).status_code == 413
    )
    assert (
        served.ask("POST", "/v1/logs", None, content=content, headers=json_type).status_code == 401
    )


@pytest.mark.slow
def test_entries_of_promtail_are_stored_once(served: Served) -> None:
    values = [["1767225600000000000", "no disk"], ["1767225600000000000", "no disk"]]
    content = orjson.dumps({"streams": [{"stream": {"app": "shop"}, "values": values}]})
    json_type = {"Content-Type": "application/json"}
    for sent, headers in (
        (content, json_type),
        (gzip.compress(content), {**json_type, "Content-Encoding": "gzip"}),
    ):
        answer = served.ask("POST", "/loki/api/v1/push", "source", content=sent, headers=headers)
        assert answer.status_code == 204
    assert [row["line"] for row in _landed(served, "entries")] == ["no disk"] * 2
    for headers, status in (({"Content-Type": "text/plain"}, 415), (json_type, 400)):
        refused = served.ask("POST", "/loki/api/v1/push", "source", content=b"{", headers=headers)
        assert refused.status_code == status
    refused = served.ask("POST", "/loki/api/v1/push", None, content=content, headers=json_type)
    assert refused.status_code == 401
