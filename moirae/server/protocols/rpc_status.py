"""Errors as OTLP answers them: a `google.rpc.Status`, as Protocol Buffers or JSON."""

from functools import cache
from typing import Any

import orjson

from moirae.server.protocols.messages import (
    INT32,
    OPTIONAL,
    STRING,
    Field,
    make_message_classes,
)

JSON = "application/json"
PROTOBUF = "application/x-protobuf"

_STATUS: list[Field] = [("code", 1, INT32, OPTIONAL), ("message", 2, STRING, OPTIONAL)]
_INVALID_ARGUMENT = 3
_INTERNAL = 13
# Codes of gRPC by status of HTTP.
_CODES = {
    401: 16,  # unauthenticated
    403: 7,  # permission denied
    404: 5,  # not found
    405: 12,  # unimplemented
    408: 4,  # deadline exceeded
    409: 6,  # already exists
    413: 8,  # resource exhausted
    429: 8,
    503: 14,  # unavailable
}


def write_status(status: int, message: str, media_type: str) -> bytes:
    """The body of an answer with a status of HTTP. `media_type`: `JSON` or `PROTOBUF`."""
    code = _CODES.get(status, _INVALID_ARGUMENT if status < 500 else _INTERNAL)
    if media_type == JSON:
        return orjson.dumps({"code": code, "message": message})
    content: bytes = _status_class()(code=code, message=message).SerializeToString()
    return content


@cache
def _status_class() -> Any:
    return make_message_classes("moirae.rpc", {"Status": _STATUS})["Status"]
