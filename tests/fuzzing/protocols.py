"""What reads bodies from other systems, for the fuzzer and for property tests, with a valid body of each."""

import gzip
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import orjson
import pyarrow as pa
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)

from moirae.errors import RequestRejected
from moirae.server.protocols.alerts import convert_alerts
from moirae.server.protocols.loki import LokiReader, _load_messages
from moirae.server.protocols.otlp import OtlpReader, Signal
from moirae.server.protocols.otlp_messages import load_messages as load_otlp_messages
from moirae.server.protocols.pushed_rows import PushedRows
from moirae.server.protocols.remote_write import SeriesReader, decompress_block
from moirae.server.protocols.write_messages import load_messages, load_messages_2
from moirae.server.request_body import decompress
from moirae.server.syslog.frames import FrameReader

_TAKES_ALL: dict[str, tuple[()]] = {"all": ()}
_LIMIT = 1 << 20
_SERIES = SeriesReader(_TAKES_ALL)
_LOKI = LokiReader(_TAKES_ALL)
_NOW = datetime(2026, 1, 1, tzinfo=UTC)
Read = Callable[[bytes], PushedRows | bytes]


def _read_otlp(signal: Signal, is_json: bool) -> Read:
    return lambda body: OtlpReader(load_otlp_messages(), signal, _TAKES_ALL).read(body, is_json)


def _read_frames(body: bytes) -> bytes:
    """The messages of a connection, which comes in two parts."""
    reader = FrameReader(_LIMIT)
    messages = [*reader.feed(body[: len(body) // 2]), *reader.feed(body[len(body) // 2 :])]
    messages += reader.finish()
    assert not any(b"\n" in message for message in messages)
    return b"\n".join(messages)


def _make_samples() -> bytes:
    series = load_messages().series(exemplars=[b"x"], histograms=[b"y"])
    series.labels.add(name="__name__", value="up")
    series.samples.add(value=1.5, timestamp=1_767_225_600_123)
    content = [series.SerializeToString(), series.SerializeToString()]
    return bytes(load_messages().request(timeseries=content).SerializeToString())


def _make_samples_2() -> bytes:
    series = load_messages_2().series(labels_refs=[1, 2])
    series.samples.add(value=1.5, timestamp=1_767_225_600_123)
    request = load_messages_2().request(
        symbols=[b"", b"__name__", b"up"], timeseries=[series.SerializeToString()]
    )
    return bytes(request.SerializeToString())


def _make_logs() -> bytes:
    request = ExportLogsServiceRequest()
    record = request.resource_logs.add().scope_logs.add().log_records.add(time_unix_nano=1 << 60)
    record.attributes.add(key="a").value.kvlist_value.values.add(key="b").value.int_value = 7
    record.body.array_value.values.add().bytes_value = b"\xff"
    return request.SerializeToString()


def _make_metrics() -> bytes:
    request = ExportMetricsServiceRequest()
    metrics = request.resource_metrics.add().scope_metrics.add().metrics
    metrics.add(name="g").gauge.data_points.add(time_unix_nano=1 << 60, as_double=1.5)
    metrics.add(name="h").histogram.data_points.add(time_unix_nano=1 << 60)
    return request.SerializeToString()


def _make_entries() -> bytes:
    messages, _ = _load_messages()
    entry = messages["Entry"](line="a")
    entry.timestamp.seconds = 1_767_225_600
    stream = messages["Stream"](labels='{a="x"}', entries=[entry.SerializeToString()])
    return bytes(messages["PushRequest"](streams=[stream.SerializeToString()]).SerializeToString())


_JSON_LOGS = b'{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"timeUnixNano":"1767225600000000000",\
"traceId":"00","body":{"kvlistValue":{"values":[{"key":"a","value":{"doubleValue":"NaN"}}]}}}]}]}]}'
_JSON_ENTRIES = (
    b'{"streams":[{"stream":{"a":"x"},"values":[["1767225600000000000","a",{"b":"c"}]]}]}'
)
_JSON_METRICS = (
    b'{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"a","sum":{"aggregationTemporality":1,'
    b'"dataPoints":[{"timeUnixNano":"1767225600000000000","asDouble":1.5,"attributes":[]}]}}]}]}]}'
)
_NOTIFICATION = (
    b'{"alerts":[{"status":"resolved","labels":{"a":"b"},"startsAt":"2026-01-01T00:00:00Z",'
    b'"endsAt":"2026-01-01T00:01:00Z"},{"status":"firing","labels":{"a":"c"}}]}'
)
_ALERTS = (
    b'[{"labels":{"alertname":"a"},"startsAt":"2026-01-01T00:00:00Z","annotations":{"b":"c"}}]'
)
PROTOCOLS: dict[str, tuple[Read, bytes]] = {
    "alerts": (lambda body: convert_alerts(body, _NOW).lines, _ALERTS),
    "notified alerts": (lambda body: convert_alerts(body, _NOW).lines, _NOTIFICATION),
    "remote write 1.0": (_SERIES.read, _make_samples()),
    "remote write 2.0": (lambda body: _SERIES.read(body, is_version_2=True), _make_samples_2()),
    "OTLP logs": (_read_otlp("logs", False), _make_logs()),
    "OTLP metrics": (_read_otlp("metrics", False), _make_metrics()),
    "OTLP logs as JSON": (_read_otlp("logs", True), _JSON_LOGS),
    "OTLP metrics as JSON": (_read_otlp("metrics", True), _JSON_METRICS),
    "Loki": (lambda body: _LOKI.read(body, False), _make_entries()),
    "Loki as JSON": (lambda body: _LOKI.read(body, True), _JSON_ENTRIES),
    "syslog": (_read_frames, b"5 <1>ab<2>line\n6 <3>abc"),
    "snappy": (
        lambda body: decompress_block(body, _LIMIT),
        pa.compress(b"ab" * 50, "snappy", asbytes=True),
    ),
    "gzip": (lambda body: decompress(body, "gzip", _LIMIT), gzip.compress(b"ab" * 50)),
    "zstd": (
        lambda body: decompress(body, "zstd", _LIMIT),
        pa.compress(b"ab" * 50, "zstd", asbytes=True),
    ),
}


def check_body(name: str, body: bytes) -> None:
    """A protocol refuses a body, or its rows are JSON objects in UTF-8, one in each line."""
    result: Any = None
    with suppress(RequestRejected):
        result = PROTOCOLS[name][0](body)
    if isinstance(result, PushedRows):
        lines = b"".join(line for rows in result.lines.values() for line in rows)
        for line in lines.splitlines():
            assert isinstance(orjson.loads(line), dict)
            line.decode()
