"""Log records and metrics as OpenTelemetry sends them: OTLP, as Protocol Buffers or JSON.

A record that cannot be stored is counted; the others of its request are stored.
"""

import base64
import binascii
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import orjson

from moirae.errors import RequestRejected
from moirae.server.protocols.otlp_messages import OtlpMessages
from moirae.server.protocols.pushed_rows import PushedRows, Selectors, find_streams

MAX_RECORDS = 100_000  # of a request; resources and scopes count as well
_MAX_RECORD_BYTES = 1 << 20
_MAX_ATTRIBUTES = 400  # of a record and its resource
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NO_RECORDED_VALUE = 1  # a flag of data points
_TEMPORALITY = {1: "delta", 2: "cumulative"}

Signal = Literal["logs", "metrics"]


class _Resource(NamedTuple):
    """What records come from. `written`: its attributes as the begin of the JSON of their rows."""

    attributes: Mapping[str, Any]
    written: bytes


class _Record(NamedTuple):
    """A log record or metric. `content`: as bytes, or as it is in JSON."""

    resource: _Resource
    scope: str
    content: Any


class OtlpReader:
    """Reads requests of a signal. `selectors`: by stream, what it takes; none: all."""

    def __init__(
        self, messages: OtlpMessages, signal: Signal, selectors: Mapping[str, Selectors]
    ) -> None:
        self._messages = messages
        self._signal = signal
        self._selectors = selectors
        self._streams = list(selectors)
        self._selects = any(selectors.values())

    def read(self, content: bytes, is_json: bool) -> PushedRows:
        """The records of a request. Raises `RequestRejected` if the request cannot be read."""
        pushed = PushedRows()
        try:
            records = self._parse_json(content) if is_json else self._parse(content)
            for record in records:
                self._add(record, pushed)
        except (self._messages.error, self._messages.json_error, ValueError) as error:
            kind = "logs" if self._signal == "logs" else "metrics"
            raise RequestRejected(400, f"the body is no OTLP request for {kind}") from error
        return pushed

    def make_response(self, pushed: PushedRows, is_json: bool) -> bytes:
        """What the protocol answers: how many records were not stored, and why."""
        reasons = pushed.skipped
        rejected = sum(reasons.values())
        counts = ", ".join(f"{count} {reason}" for (_, reason), count in sorted(reasons.items()))
        if is_json:
            name = "rejectedLogRecords" if self._signal == "logs" else "rejectedDataPoints"
            partial = {name: str(rejected), "errorMessage": counts}
            return orjson.dumps({"partialSuccess": partial} if rejected else {})
        if self._signal == "logs":
            response = self._messages.logs_response()
        else:
            response = self._messages.metrics_response()
        if rejected:
            partial_success = response.partial_success
            partial_success.error_message = counts
            if self._signal == "logs":
                partial_success.rejected_log_records = rejected
            else:
                partial_success.rejected_data_points = rejected
        serialized: bytes = response.SerializeToString()
        return serialized

    def _parse(self, content: bytes) -> Iterator[_Record]:
        messages, budget = self._messages, _Budget()
        resources = messages.request.FromString(content).resources
        budget.take(len(resources))
        for resource_content in resources:
            described = messages.resource_records.FromString(resource_content)
            budget.take(len(described.scopes))
            if len(described.resource) > _MAX_RECORD_BYTES:
                raise _resource_too_large()
            resource = _read_resource(messages.resource.FromString(described.resource))
            for scope_content in described.scopes:
                scope = messages.scope_records.FromString(scope_content)
                budget.take(len(scope.records))
                name = messages.scope.FromString(scope.scope).name
                for record in scope.records:
                    yield _Record(resource, name, record)

    def _parse_json(self, content: bytes) -> Iterator[_Record]:
        from google.protobuf.json_format import ParseDict

        request = orjson.loads(content)
        plural, records_name = (
            ("resourceLogs", "logRecords")
            if self._signal == "logs"
            else ("resourceMetrics", "metrics")
        )
        budget = _Budget()
        resources = _list_objects(request, plural)
        budget.take(len(resources))
        for described in resources:
            resource_message = self._messages.resource()
            resource_content = _get(described, "resource") or {}
            if len(_list_objects(resource_content, "attributes")) > _MAX_ATTRIBUTES:
                raise _resource_too_large()
            ParseDict(resource_content, resource_message, True)
            resource = _read_resource(resource_message)
            for scope in _list_objects(described, plural.replace("resource", "scope")):
                scope_message = self._messages.scope()
                ParseDict(_get(scope, "scope") or {}, scope_message, True)
                records = _list_objects(scope, records_name)
                budget.take(1 + len(records))
                for record in records:
                    yield _Record(resource, scope_message.name, record)

    def _add(self, record: _Record, pushed: PushedRows) -> None:
        is_log = self._signal == "logs"
        message = self._messages.log_record() if is_log else self._messages.metric()
        try:
            _read_into(message, record.content)
        except (self._messages.error, self._messages.json_error, ValueError):
            pushed.skipped["", "invalid records"] += 1
            return
        rows = _read_log(message) if is_log else _read_metric(message)
        for row in rows:
            if isinstance(row, str):
                pushed.skipped["", row] += 1
                continue
            fields, attributes = row
            if len(attributes) + len(record.resource.attributes) > _MAX_ATTRIBUTES:
                pushed.skipped["", "too many attributes"] += 1
                continue
            streams = self._find_streams(record.resource, attributes, fields.get("metric"))
            if not streams:
                pushed.skipped["", "unmatched"] += 1
                continue
            # A field that all rows lack would slow down reading.
            written = {name: value for name, value in fields.items() if value is not None}
            for name, value in attributes.items():
                written[f"attributes.{name}"] = value
            if record.scope:
                written["scope"] = record.scope
            content = orjson.dumps(written, option=orjson.OPT_APPEND_NEWLINE)
            pushed.add(streams, record.resource.written + content[1:])

    def _find_streams(
        self, resource: _Resource, attributes: Mapping[str, Any], metric: str | None
    ) -> Sequence[str]:
        if not self._selects:
            return self._streams
        labels = {**resource.attributes, **attributes}
        if metric is not None:
            labels["__name__"] = metric
        texts = {name: _to_text(value) for name, value in labels.items()}
        return find_streams(self._selectors, texts)


class _Budget:
    """Counts the parts of a request before they are parsed."""

    def __init__(self) -> None:
        self._count = 0

    def take(self, count: int) -> None:
        """Raise `RequestRejected` if the request has too many parts."""
        self._count += count
        if self._count > MAX_RECORDS:
            raise RequestRejected(413, f"too many records: limit {MAX_RECORDS} per request")


_Row = tuple[dict[str, Any], dict[str, Any]]
"""The fields of a row that are no attributes, and the attributes."""


def _read_log(record: Any) -> Iterator[_Row | str]:
    """The row of a log record, or why there is none."""
    ts = _write_time(record.time_unix_nano or record.observed_time_unix_nano)
    if ts is None:
        yield "invalid times"
        return
    body = _read_value(record.body)
    fields = {
        "ts": ts,
        "observed_ts": _write_time(record.observed_time_unix_nano),
        "severity": record.severity_text or None,
        "severity_number": int(record.severity_number) or None,
        "body": body,
        "event_name": record.event_name or None,
        "trace_id": record.trace_id.hex() or None,
        "span_id": record.span_id.hex() or None,
    }
    yield fields, _read_attributes(record)


def _read_metric(metric: Any) -> Iterator[_Row | str]:
    """The rows of a metric's data points, or why a point is none."""
    kind = metric.WhichOneof("data")
    if kind is None:
        return
    data = getattr(metric, kind)
    if kind not in ("gauge", "sum"):
        yield from ["histograms" if "histogram" in kind else "summaries"] * len(data.data_points)
        return
    temporality = _TEMPORALITY.get(data.aggregation_temporality) if kind == "sum" else None
    for point in data.data_points:
        ts = _write_time(point.time_unix_nano)
        number = point.WhichOneof("value")
        if point.flags & _NO_RECORDED_VALUE or number is None:
            yield "without a value"
        elif math.isnan(value := getattr(point, number)):
            yield "nan"
        elif ts is None:
            yield "invalid times"
        else:
            fields = {
                "ts": ts,
                "start_ts": _write_time(point.start_time_unix_nano),
                "metric": metric.name,
                "value": _to_json_number(value),
                "unit": metric.unit or None,
                "temporality": temporality,
            }
            yield fields, _read_attributes(point)


def _read_into(message: Any, content: Any) -> None:
    """Parse a record. Raises what parsing raises, and `ValueError`."""
    from google.protobuf.json_format import ParseDict

    if isinstance(content, bytes):
        if len(content) > _MAX_RECORD_BYTES:
            raise ValueError
        message.ParseFromString(content)
        return
    # In OTLP's JSON, other than in that of Protocol Buffers, these are hexadecimal.
    changed = {
        name: base64.b64encode(binascii.unhexlify(value)).decode()
        for name in ("traceId", "spanId", "trace_id", "span_id")
        if isinstance(value := content.get(name), str)
    }
    ParseDict({**content, **changed}, message, True)


def _read_resource(resource: Any) -> _Resource:
    """Raises `RequestRejected` for one with too many attributes."""
    if len(resource.attributes) > _MAX_ATTRIBUTES:
        raise _resource_too_large()
    attributes = _read_attributes(resource)
    fields = {f"resource.{name}": value for name, value in attributes.items()}
    return _Resource(attributes, orjson.dumps(fields)[:-1] + (b"," if fields else b""))


def _resource_too_large() -> RequestRejected:
    return RequestRejected(
        413,
        f"a resource is too large: limit {_MAX_ATTRIBUTES} attributes, {_MAX_RECORD_BYTES} bytes",
    )


def _read_attributes(owner: Any) -> dict[str, Any]:
    return {attribute.key: _read_value(attribute.value) for attribute in owner.attributes}


def _read_value(value: Any) -> Any:
    """A value as JSON has it; bytes as base64, an infinite number as text."""
    if text := value.string_value:  # of most
        return text
    kind = value.WhichOneof("value")
    match kind:
        case None:
            return None
        case "array_value":
            return [_read_value(item) for item in value.array_value.values]
        case "kvlist_value":
            return {item.key: _read_value(item.value) for item in value.kvlist_value.values}
        case "bytes_value":
            return base64.b64encode(value.bytes_value).decode()
        case "double_value":
            return _to_json_number(value.double_value)
        case _:
            return getattr(value, kind)


def _to_json_number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _to_text(value: Any) -> str:
    """An attribute as selectors see it."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _write_time(nanoseconds: int) -> str | None:
    """A time in microseconds; None if it is absent. The field ends in the year 2554."""
    if nanoseconds == 0:
        return None
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return f"{_write_second(seconds)}.{rest // 1000:06d}Z"


@lru_cache(maxsize=4_096)  # records of a request are of few seconds
def _write_second(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).isoformat()[:19]


def _get(parent: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    value = parent.get(name)
    if value is not None and not isinstance(value, dict):
        raise ValueError(f"{name} is no object")
    return value


def _list_objects(parent: Any, name: str) -> list[dict[str, Any]]:
    """The objects of a list. Raises `ValueError` for anything else."""
    if not isinstance(parent, dict):
        raise ValueError("the body is no object")
    values = parent.get(name)
    if values is None:
        return []
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise ValueError(f"{name} is no object")
    return values
