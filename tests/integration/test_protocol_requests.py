"""Requests of protocols that Schemathesis makes from a description of their routes, as their documents
say and otherwise: each is taken or refused as the protocol says, and none is an error of the server.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
import schemathesis
from hypothesis import strategies as st
from schemathesis.specs.openapi.checks import content_type_conformance, status_code_conformance

from tests.described_requests import find_failures
from tests.fuzzing.protocols import PROTOCOLS
from tests.served import Served, serve

pytestmark = [pytest.mark.services, pytest.mark.slow]

_WORKSPACE = """
server: {listen: "127.0.0.1:0"}
streams:
  samples:
    columns: {ts: timestamp, metric: string, value: double}
    time: ts
    source: {remote_write: true}
  records: {columns: {ts: timestamp, body: string}, time: ts, source: {otlp: logs}}
  points: {columns: {ts: timestamp, value: double}, time: ts, source: {otlp: metrics}}
  entries: {columns: {ts: timestamp, line: string}, time: ts, source: {loki: true}}
"""
# Requests to a route: the server takes 2,000 batches of a stream that are not archived.
_EXAMPLES = 150
_BINARY = {"type": "string", "format": "binary"}
_TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
_TIME = {"type": "string", "format": "date-time"}
_ALERT = {
    "type": "object",
    "required": ["labels"],
    "properties": {
        "labels": {**_TEXTS, "minProperties": 1},
        "annotations": _TEXTS,
        "startsAt": _TIME,
        "endsAt": _TIME,
        "generatorURL": {"type": "string"},
        "status": {"enum": ["firing", "resolved"]},
    },
}
_ALERTS = {"type": "array", "items": _ALERT}
_NANOSECONDS = {"type": "string", "pattern": "^[0-9]{1,19}$"}
_ENTRY = {
    "type": "array",
    "prefixItems": [_NANOSECONDS, {"type": "string"}, _TEXTS],
    "items": False,
    "minItems": 2,
}
_ENTRIES = {
    "type": "object",
    "required": ["streams"],
    "properties": {
        "streams": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["stream", "values"],
                "properties": {"stream": _TEXTS, "values": {"type": "array", "items": _ENTRY}},
            },
        }
    },
}
_ANY_VALUE = {
    "type": "object",
    "maxProperties": 1,
    "properties": {
        "stringValue": {"type": "string"},
        "boolValue": {"type": "boolean"},
        "intValue": {"type": ["string", "integer"]},
        "doubleValue": {"type": ["number", "string"]},
        "bytesValue": {"type": "string"},
        "arrayValue": {
            "type": "object",
            "properties": {
                "values": {"type": "array", "items": {"$ref": "#/components/schemas/V"}}
            },
        },
    },
}
_ATTRIBUTES = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"key": {"type": "string"}, "value": {"$ref": "#/components/schemas/V"}},
    },
}
_RECORD = {
    "type": "object",
    "properties": {
        "timeUnixNano": _NANOSECONDS,
        "observedTimeUnixNano": _NANOSECONDS,
        "severityNumber": {"type": ["integer", "string"]},
        "severityText": {"type": "string"},
        "body": {"$ref": "#/components/schemas/V"},
        "attributes": _ATTRIBUTES,
        "traceId": {"type": "string"},
        "flags": {"type": "integer"},
    },
}
_POINT = {
    "type": "object",
    "properties": {
        "timeUnixNano": _NANOSECONDS,
        "asDouble": {"type": ["number", "string"]},
        "asInt": {"type": ["string", "integer"]},
        "attributes": _ATTRIBUTES,
    },
}
_POINTS = {
    "type": "object",
    "properties": {
        "aggregationTemporality": {"type": ["integer", "string"]},
        "isMonotonic": {"type": "boolean"},
        "dataPoints": {"type": "array", "items": _POINT},
    },
}
_METRIC = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "unit": {"type": "string"},
        **dict.fromkeys(("gauge", "sum", "histogram", "summary"), _POINTS),
    },
}


def _export(resources: str, scopes: str, items: str, item: dict[str, Any]) -> dict[str, Any]:
    """The body of an export of OTLP: items of scopes of resources."""
    scope = {"type": "object", "properties": {items: {"type": "array", "items": item}}}
    resource = {
        "type": "object",
        "properties": {
            "resource": {"type": "object", "properties": {"attributes": _ATTRIBUTES}},
            scopes: {"type": "array", "items": scope},
        },
    }
    return {
        "type": "object",
        "properties": {resources: {"type": "array", "items": resource}},
    }


def _describe(
    bodies: dict[str, Any],
    statuses: tuple[int, ...],
    encodings: tuple[str, ...],
    answers: tuple[str, ...] = ("application/problem+json",),
) -> dict[str, Any]:
    """A route. `bodies`: schemas by media type. `answers`: media types of answers with a body, which
    are errors and all answers of OTLP.
    """
    content = {media_type: {"schema": {}} for media_type in answers}
    responses: dict[str, Any] = {}
    for status in statuses:
        responses[str(status)] = {"description": ""}
        if status >= 400 or answers == _OTLP:
            responses[str(status)]["content"] = content
    return {
        "post": {
            "requestBody": {
                "required": True,
                "content": {name: {"schema": schema} for name, schema in bodies.items()},
            },
            "parameters": [
                {
                    "name": "Content-Encoding",
                    "in": "header",
                    "required": True,
                    "schema": {"enum": list(encodings)},
                }
            ],
            "responses": responses,
        }
    }


_REFUSED = (400, 413, 415)
_PROTOBUF = "application/x-protobuf"
_V2 = f"{_PROTOBUF};proto=io.prometheus.write.v2.Request"
_OTLP = (_PROTOBUF, "application/json")
_PATHS = {
    "/api/v2/alerts": _describe(
        {"application/json": {"anyOf": [_ALERTS, {"properties": {"alerts": _ALERTS}}]}},
        (200, *_REFUSED),
        ("identity",),
    ),
    "/api/v1/write": _describe(
        {_PROTOBUF: _BINARY, _V2: _BINARY}, (204, *_REFUSED), ("snappy", "gzip")
    ),
    "/loki/api/v1/push": _describe(
        {_PROTOBUF: _BINARY, "application/json": _ENTRIES},
        (204, *_REFUSED),
        ("snappy", "identity", "gzip"),
    ),
    "/v1/logs": _describe(
        {
            _PROTOBUF: _BINARY,
            "application/json": _export("resourceLogs", "scopeLogs", "logRecords", _RECORD),
        },
        (200, *_REFUSED),
        ("identity", "gzip"),
        _OTLP,
    ),
    "/v1/metrics": _describe(
        {
            _PROTOBUF: _BINARY,
            "application/json": _export("resourceMetrics", "scopeMetrics", "metrics", _METRIC),
        },
        (200, *_REFUSED),
        ("identity", "gzip"),
        _OTLP,
    ),
}
_DOCUMENT = {
    "openapi": "3.1.0",
    "info": {"title": "Protocols", "version": "1"},
    "paths": _PATHS,
    "components": {"schemas": {"V": _ANY_VALUE}},
}


_BODIES = [
    PROTOCOLS[name][1]
    for name in ("remote write 1.0", "remote write 2.0", "OTLP logs", "OTLP metrics", "Loki")
]


@st.composite
def _binary_bodies(draw: st.DrawFn) -> bytes:
    """A body of one of the protocols, perhaps changed at some places, cut, and compressed."""
    body = bytearray(draw(st.sampled_from(_BODIES)))
    if draw(st.booleans()):
        for place, value in draw(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)))):
            body[place % len(body)] = value
        body = body[: draw(st.integers(0, 2 * len(body)))]
    if draw(st.booleans()):
        return bytes(pa.Codec("snappy").compress(bytes(body), asbytes=True))
    return bytes(body)


def no_server_error(
    _: schemathesis.CheckContext, response: schemathesis.Response, case: schemathesis.Case
) -> None:
    """No status of 500 or more: the server is not overloaded, either."""
    assert response.status_code < 500, case


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    schemathesis.openapi.media_type(_PROTOBUF, _binary_bodies(), aliases=[_V2])
    with serve(_WORKSPACE, "groups: []\n") as running:
        yield running


@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode))
def test_protocols_take_or_refuse_each_request(
    mode: schemathesis.GenerationMode, served: Served
) -> None:
    schema = schemathesis.openapi.from_dict(_DOCUMENT)
    checks = [no_server_error, status_code_conformance, content_type_conformance]
    statuses: dict[str, set[int]] = {path: set() for path in _PATHS}

    def record_status(
        _: schemathesis.CheckContext, response: schemathesis.Response, case: schemathesis.Case
    ) -> None:
        statuses[case.path].add(response.status_code)

    failures = find_failures(
        schema,
        served,
        [record_status, *checks],
        role="source",
        max_examples=_EXAMPLES,
        min_routes=len(_PATHS),
        mode=mode,
    )
    assert failures == {}
    for path, seen in statuses.items():
        assert seen & set(_REFUSED), path
        if mode is schemathesis.GenerationMode.POSITIVE:
            assert seen & {200, 204}, path
