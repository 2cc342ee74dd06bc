"""Messages of OTLP: the containers of a request, and the library's classes of what they contain.

Requests for logs and metrics have the same shape: resources, with scopes, with records.
"""

from functools import cache
from typing import Any, NamedTuple

from moirae.server.protocols.messages import (
    BYTES,
    OPTIONAL,
    REPEATED,
    Field,
    make_message_classes,
)

_CONTAINERS: dict[str, list[Field]] = {
    "Request": [("resources", 1, BYTES, REPEATED)],
    "ResourceRecords": [("resource", 1, BYTES, OPTIONAL), ("scopes", 2, BYTES, REPEATED)],
    "ScopeRecords": [("scope", 1, BYTES, OPTIONAL), ("records", 2, BYTES, REPEATED)],
}


class OtlpMessages(NamedTuple):
    """The classes of messages. `error` and `json_error`: what parsing raises."""

    request: Any
    resource_records: Any
    scope_records: Any
    resource: Any
    scope: Any
    log_record: Any
    metric: Any
    logs_response: Any
    metrics_response: Any
    error: type[Exception]
    json_error: type[Exception]


@cache
def load_messages() -> OtlpMessages:
    """The classes of messages. The library is loaded with the first request."""
    from google.protobuf.json_format import ParseError
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
    from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
    from opentelemetry.proto.common.v1 import common_pb2
    from opentelemetry.proto.logs.v1 import logs_pb2
    from opentelemetry.proto.metrics.v1 import metrics_pb2
    from opentelemetry.proto.resource.v1 import resource_pb2

    containers = make_message_classes("moirae.otlp", _CONTAINERS)
    return OtlpMessages(
        request=containers["Request"],
        resource_records=containers["ResourceRecords"],
        scope_records=containers["ScopeRecords"],
        resource=resource_pb2.Resource,
        scope=common_pb2.InstrumentationScope,
        log_record=logs_pb2.LogRecord,
        metric=metrics_pb2.Metric,
        logs_response=logs_service_pb2.ExportLogsServiceResponse,
        metrics_response=metrics_service_pb2.ExportMetricsServiceResponse,
        error=DecodeError,
        json_error=ParseError,
    )
