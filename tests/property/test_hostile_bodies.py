"""Whatever a body holds, a protocol reads it or refuses it, and gives rows that are JSON lines.

Bodies are random, or valid ones with bytes changed, cut off, repeated and exchanged.
"""

import gzip
import random
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
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

_TAKES_ALL: dict[str, tuple[()]] = {"all": ()}
_LIMIT = 1 << 20
_SERIES = SeriesReader(_TAKES_ALL)
_LOKI = LokiReader(_TAKES_ALL)
_NOW = datetime(2026, 1, 1, tzinfo=UTC)
Read = Callable[[bytes], PushedRows | bytes]


def _read_otlp(signal: Signal, is_json: bool) -> Read:
    return lambda body: OtlpReader(load_otlp_messages(), signal, _TAKES_ALL).read(body, is_json)


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
_ALERTS = (
    b'[{"labels":{"alertname":"a"},"startsAt":"2026-01-01T00:00:00Z","annotations":{"b":"c"}}]'
)
_PROTOCOLS: dict[str, tuple[Read, bytes]] = {
    "alerts": (lambda body: convert_alerts(body, _NOW).lines, _ALERTS),
    "remote write 1.0": (_SERIES.read, _make_samples()),
    "remote write 2.0": (lambda body: _SERIES.read(body, is_version_2=True), _make_samples_2()),
    "OTLP logs": (_read_otlp("logs", False), _make_logs()),
    "OTLP metrics": (_read_otlp("metrics", False), _make_metrics()),
    "OTLP logs as JSON": (_read_otlp("logs", True), _JSON_LOGS),
    "Loki": (lambda body: _LOKI.read(body, False), _make_entries()),
    "Loki as JSON": (lambda body: _LOKI.read(body, True), _JSON_ENTRIES),
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


def _mutate(body: bytes, seed: int) -> bytes:
    """A body with some of its bytes changed, inserted, deleted or repeated."""
    rng, changed = random.Random(seed), bytearray(body)
    for _ in range(rng.randrange(1, 6)):
        position = rng.randrange(len(changed) + 1)
        length = rng.choice((1, 1, 2, 8, len(changed)))
        match rng.randrange(4):
            case 0:
                changed[position : position + length] = rng.randbytes(length)
            case 1:
                del changed[position : position + length]
            case 2:
                changed[position:position] = changed[position : position + length]
            case _:
                changed[position:position] = rng.choice(
                    (b"\xff" * 9, b"\x00", b"\x80", b"\x0a", b"{", b'"')
                )
    return bytes(changed)


@pytest.mark.parametrize("name", _PROTOCOLS)
@given(data=st.data())
def test_body_is_read_or_refused(name: str, data: st.DataObject) -> None:
    read, valid = _PROTOCOLS[name]
    mutated = st.integers(0, 1 << 32).map(lambda seed: _mutate(valid, seed))
    body = data.draw(st.binary(max_size=200) | mutated)
    result: Any = None
    with suppress(RequestRejected):
        result = read(body)
    if isinstance(result, PushedRows):
        lines = b"".join(line for rows in result.lines.values() for line in rows)
        for line in lines.splitlines():
            assert isinstance(orjson.loads(line), dict)
            line.decode()


@pytest.mark.parametrize("name", _PROTOCOLS)
def test_valid_body_is_read(name: str) -> None:
    read, valid = _PROTOCOLS[name]
    result = read(valid)
    assert result if isinstance(result, bytes) else result.lines["all"]
