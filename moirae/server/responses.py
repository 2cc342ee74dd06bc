"""JSON responses of the server, including errors."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import orjson
from starlette.responses import Response

from moirae.errors import RequestRejected

DATABASE_UNREACHABLE = "the database is unreachable"
DATABASE_RETRY = 5  # seconds after which a client may retry
_MAX_RESPONSE_BYTES = 4 << 20


def json_response(value: Any, status: int = 200) -> Response:
    """A value as JSON; times are in UTC with `Z`."""
    return Response(_to_json(value), status, media_type="application/json")


def bounded_response(name: str, rows: Sequence[Any]) -> Response:
    """Rows under a key, as many as fit into 4 MiB; `truncated` tells whether rows were left out."""
    texts = list(_take_bytes(rows, _MAX_RESPONSE_BYTES))
    truncated = len(texts) < len(rows)
    return json_response({name: list(map(orjson.Fragment, texts)), "truncated": truncated})


def error_response(rejection: RequestRejected) -> Response:
    """A rejection as JSON. Closes the connection, as the request body may be unread."""
    response = json_response({"error": rejection.reason}, rejection.status)
    if rejection.retry_after is not None:
        response.headers["Retry-After"] = str(rejection.retry_after)
    if rejection.status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    response.headers["Connection"] = "close"
    return response


def _take_bytes(rows: Iterable[dict[str, Any]], max_bytes: int) -> Iterator[bytes]:
    """The first rows as JSON, up to a total size."""
    size = 0
    for row in rows:
        text = _to_json(row)
        size += len(text)
        if size > max_bytes:
            return
        yield text


def _to_json(value: Any) -> bytes:
    return orjson.dumps(value, default=str, option=orjson.OPT_UTC_Z)
