"""Requests of OTLP."""

import math
import tracemalloc
from collections.abc import Iterable
from typing import Any

import orjson
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

from moirae.config.matchers import parse_matchers
from moirae.errors import RequestRejected
from moirae.server.protocols import otlp
from moirae.server.protocols.otlp import OtlpReader, Signal
from moirae.server.protocols.otlp_messages import load_messages
from moirae.server.protocols.pushed_rows import PushedRows

TS = 1_767_225_600_123_456_789
RESOURCE = {"attributes": [{"key": "service.name", "value": {"stringValue": "checkout"}}]}
TRACE_ID = "5b8efff798038103d269b633813fc60c"


def _read(signal: Signal, content: bytes, is_json: bool = True, **matches: list[str]) -> PushedRows:
    selectors = {
        name: tuple(map(parse_matchers, texts)) for name, texts in (matches or {"all": []}).items()
    }
    return OtlpReader(load_messages(), signal, selectors).read(content, is_json)


def _logs(*records: Any) -> bytes:
    scope = {"scope": {"name": "shop"}, "logRecords": records}
    return orjson.dumps({"resourceLogs": [{"resource": RESOURCE, "scopeLogs": [scope]}]})


def _metrics(*metrics: Any) -> bytes:
    scope = {"metrics": metrics}
    return orjson.dumps({"resourceMetrics": [{"resource": RESOURCE, "scopeMetrics": [scope]}]})


def _gauge(*points: Any, kind: str = "gauge", **data: Any) -> dict[str, Any]:
    return {"name": "queue", "unit": "1", kind: {"dataPoints": points, **data}}


def _rows(pushed: PushedRows, stream: str = "all") -> list[dict[str, Any]]:
    return list(map(orjson.loads, pushed.lines.get(stream, [])))


RECORD = {
    "timeUnixNano": str(TS),
    "severityText": "ERROR",
    "severityNumber": 17,
    "body": {"stringValue": "no disk"},
    "traceId": TRACE_ID,
    "spanId": "eee19b7ec3c1b174",
    "attributes": [{"key": "http.status", "value": {"intValue": "503"}}],
    "someNewField": 1,
}


def test_log_record_becomes_a_row() -> None:
    (row,) = _rows(_read("logs", _logs(RECORD)))
    assert row == {
        "ts": "2026-01-01T00:00:00.123456Z",
        "severity": "ERROR",
        "severity_number": 17,
        "body": "no disk",
        "trace_id": TRACE_ID,
        "span_id": "eee19b7ec3c1b174",
        "scope": "shop",
        "attributes.http.status": 503,
        "resource.service.name": "checkout",
    }


def test_both_encodings_give_the_same_rows() -> None:
    request = ExportLogsServiceRequest()
    described = request.resource_logs.add()
    described.resource.attributes.add(key="service.name").value.string_value = "checkout"
    scope = described.scope_logs.add()
    scope.scope.name = "shop"
    record = scope.log_records.add(time_unix_nano=TS, severity_text="ERROR", severity_number=17)
    record.body.string_value = "no disk"
    record.trace_id, record.span_id = bytes.fromhex(TRACE_ID), bytes.fromhex("eee19b7ec3c1b174")
    record.attributes.add(key="http.status").value.int_value = 503
    pushed = _read("logs", request.SerializeToString(), is_json=False)
    assert _rows(pushed) == _rows(_read("logs", _logs(RECORD)))


def test_structured_body_is_an_object() -> None:
    nested = {"kvlistValue": {"values": [{"key": "code", "value": {"doubleValue": "Infinity"}}]}}
    body = {"arrayValue": {"values": [nested, {"boolValue": True}, {}, {"bytesValue": "AAE="}]}}
    (row,) = _rows(_read("logs", _logs({"observedTimeUnixNano": TS, "body": body})))
    assert row["body"] == [{"code": "Infinity"}, True, None, "AAE="]
    assert row["ts"] == row["observed_ts"] == "2026-01-01T00:00:00.123456Z"


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"body": {"stringValue": "a"}}, "invalid times"),
        ({"timeUnixNano": str(2**64)}, "invalid records"),
        ({"timeUnixNano": "soon"}, "invalid records"),
        ({"timeUnixNano": TS, "traceId": "xyz"}, "invalid records"),
        ({"timeUnixNano": TS, "attributes": "a"}, "invalid records"),
    ],
)
def test_invalid_record_is_counted_and_the_others_are_stored(record: Any, reason: str) -> None:
    pushed = _read("logs", _logs(RECORD, record))
    assert len(_rows(pushed)) == 1
    assert pushed.skipped == {("", reason): 1}


def test_invalid_record_in_protocol_buffers_is_counted() -> None:
    containers = load_messages()
    scope = containers.scope_records(records=[b"\xff", b""])
    described = containers.resource_records(scopes=[scope.SerializeToString()])
    request = containers.request(resources=[described.SerializeToString()])
    pushed = _read("logs", request.SerializeToString(), is_json=False)
    assert pushed.skipped == {("", "invalid records"): 1, ("", "invalid times"): 1}


def test_record_goes_to_the_streams_that_select_its_attributes() -> None:
    matches = {
        "checkout": ['{"service.name"="checkout"}'],
        "failing": ['{"http.status"=~"5.."}'],
        "other": ['{"service.name"="cart"}'],
    }
    pushed = _read("logs", _logs(RECORD), **matches)
    assert {name for name, lines in pushed.lines.items() if lines} == {"checkout", "failing"}
    pushed = _read("logs", _logs(RECORD), other=['{"service.name"="cart"}'])
    assert (_rows(pushed), pushed.skipped) == ([], {("", "unmatched"): 1})


def test_points_of_gauges_and_sums_become_rows() -> None:
    point = {"timeUnixNano": str(TS), "asDouble": 2.5}
    count = {"timeUnixNano": TS, "startTimeUnixNano": TS, "asInt": "7"}
    metrics = _metrics(_gauge(point), _gauge(count, kind="sum", aggregationTemporality=1))
    gauge, total = _rows(_read("metrics", metrics))
    assert gauge == {
        "ts": "2026-01-01T00:00:00.123456Z",
        "metric": "queue",
        "value": 2.5,
        "unit": "1",
        "resource.service.name": "checkout",
    }
    assert (total["value"], total["temporality"], total["start_ts"]) == (7, "delta", total["ts"])


def test_metric_is_selected_by_its_name() -> None:
    metrics = _metrics(_gauge({"timeUnixNano": TS, "asInt": 1}))
    assert len(_rows(_read("metrics", metrics, queue=['{__name__="queue"}']), "queue")) == 1
    assert not _read("metrics", metrics, other=['{__name__="other"}']).lines


@pytest.mark.parametrize(
    ("metric", "reason"),
    [
        (_gauge({"timeUnixNano": TS}), "without a value"),
        (_gauge({"timeUnixNano": TS, "asInt": 1, "flags": 1}), "without a value"),
        (_gauge({"timeUnixNano": TS, "asDouble": "NaN"}), "nan"),
        (_gauge({"asDouble": 1}), "invalid times"),
        (_gauge({"timeUnixNano": TS, "count": 1}, kind="histogram"), "histograms"),
        (_gauge({"timeUnixNano": TS}, kind="exponentialHistogram"), "histograms"),
        (_gauge({"timeUnixNano": TS}, kind="summary"), "summaries"),
    ],
)
def test_point_that_is_no_row_is_counted(metric: Any, reason: str) -> None:
    pushed = _read("metrics", _metrics(metric))
    assert (_rows(pushed), pushed.skipped) == ([], {("", reason): 1})


def test_infinite_value_is_a_text() -> None:
    (row,) = _rows(
        _read("metrics", _metrics(_gauge({"timeUnixNano": TS, "asDouble": "-Infinity"})))
    )
    assert row["value"] == "-Infinity"
    assert math.isinf(float(row["value"]))


@pytest.mark.parametrize(
    ("content", "is_json"),
    [
        (b"{", True),
        (b"[]", True),
        (b'{"resourceLogs": {}}', True),
        (b'{"resourceLogs": [7]}', True),
        (b'{"resourceLogs": [{"resource": []}]}', True),
        (b'{"resourceLogs": [{"resource": {"attributes": 7}}]}', True),
        (b"\xff\xff", False),
        (b"\x0a\x7f\x01", False),
    ],
)
def test_request_that_cannot_be_read_is_refused(content: bytes, is_json: bool) -> None:
    with pytest.raises(RequestRejected, match="no OTLP request for logs") as caught:
        _read("logs", content, is_json)
    assert caught.value.status == 400


def _bombs() -> Iterable[bytes]:
    """Many empty resources, scopes and records."""
    yield b"\x0a\x00" * 200
    for levels in (1, 2):
        content = b"\x12\x00" * 200
        for _ in range(levels):
            size = len(content)
            tag = b"\x0a" if _ == levels - 1 else b"\x12"
            content = tag + bytes([size & 0x7F | 0x80, size >> 7]) + content
        yield content


@pytest.mark.parametrize("content", list(_bombs()))
def test_request_with_too_many_parts_is_refused(
    monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    monkeypatch.setattr(otlp, "MAX_RECORDS", 100)
    with pytest.raises(RequestRejected, match="too many records") as caught:
        _read("logs", content, is_json=False)
    assert caught.value.status == 413


def test_answer_says_what_was_not_stored() -> None:
    reader = OtlpReader(load_messages(), "logs", {"all": ()})
    pushed = reader.read(_logs(RECORD, {}, {}), is_json=True)
    partial = {"rejectedLogRecords": "2", "errorMessage": "2 invalid times"}
    assert orjson.loads(reader.make_response(pushed, is_json=True)) == {"partialSuccess": partial}
    response = ExportLogsServiceResponse.FromString(reader.make_response(pushed, is_json=False))
    assert response.partial_success.rejected_log_records == 2
    stored = reader.read(_logs(RECORD), is_json=True)
    assert reader.make_response(stored, is_json=True) == b"{}"
    assert reader.make_response(stored, is_json=False) == b""


def test_answer_for_metrics_counts_points() -> None:
    reader = OtlpReader(load_messages(), "metrics", {"all": ()})
    request = ExportMetricsServiceRequest()
    metric = request.resource_metrics.add().scope_metrics.add().metrics.add(name="m")
    metric.gauge.data_points.add(time_unix_nano=TS)
    pushed = reader.read(request.SerializeToString(), is_json=False)
    response = ExportMetricsServiceResponse.FromString(reader.make_response(pushed, is_json=False))
    assert response.partial_success.rejected_data_points == 1
    assert response.partial_success.error_message == "1 without a value"


def test_record_with_too_many_attributes_is_counted() -> None:
    attributes = [{"key": f"a{number}", "value": {"intValue": 1}} for number in range(400)]
    pushed = _read("logs", _logs(RECORD, RECORD | {"attributes": attributes}))
    assert len(_rows(pushed)) == 1
    assert pushed.skipped == {("", "too many attributes"): 1}


@pytest.mark.parametrize("is_taken", [True, False])
@pytest.mark.slow
def test_large_resource_of_many_records_takes_little_memory(is_taken: bool) -> None:
    """Its attributes are in each row: a request of 3 MiB could have rows of 60 GB."""
    text = {"key": "x", "value": {"stringValue": "x" * (2 << 20)}}
    scope = {"logRecords": [{"timeUnixNano": "1"}] * 30_000}
    content = orjson.dumps(
        {"resourceLogs": [{"resource": {"attributes": [text]}, "scopeLogs": [scope]}]}
    )
    tracemalloc.start()
    if is_taken:
        with pytest.raises(RequestRejected, match="rows of the request are too large"):
            _read("logs", content)
    else:
        pushed = _read("logs", content, one=['{none="a"}'])
        assert pushed.skipped == {("", "unmatched"): 30_000}
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 150 << 20


@pytest.mark.parametrize("is_json", [True, False])
def test_resource_with_too_many_attributes_is_refused(is_json: bool) -> None:
    attributes = [{"key": f"a{number}", "value": {"intValue": 1}} for number in range(401)]
    content = orjson.dumps({"resourceLogs": [{"resource": {"attributes": attributes}}]})
    if not is_json:
        request = ExportLogsServiceRequest()
        for number in range(401):
            resource = request.resource_logs[0] if number else request.resource_logs.add()
            resource.resource.attributes.add(key=f"a{number}")
        content = request.SerializeToString()
    with pytest.raises(RequestRejected, match="a resource is too large"):
        _read("logs", content, is_json)


@pytest.mark.parametrize("content", [b'{"resourceLogs":[%b]}', b"%b"])
def test_empty_resources_count_as_records(content: bytes) -> None:
    is_json = content.startswith(b"{")
    resources = b",".join([b"{}"] * 100_001) if is_json else b"\x0a\x00" * 100_001
    with pytest.raises(RequestRejected, match="too many records"):
        _read("logs", content % resources, is_json)
