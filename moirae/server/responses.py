"""How the server answers: JSON, and refusals that say why."""

from typing import Any

import orjson
from starlette.responses import Response

from moirae.errors import RequestRejected


def json_response(value: Any, status: int = 200) -> Response:
    """A value as JSON."""
    body = orjson.dumps(value, default=str, option=orjson.OPT_UTC_Z)
    return Response(body, status, media_type="application/json")


def error_response(rejection: RequestRejected) -> Response:
    """A refusal as JSON. The connection ends with it: a body may be left unread."""
    response = json_response({"error": rejection.reason}, rejection.status)
    if rejection.retry_after is not None:
        response.headers["Retry-After"] = str(rejection.retry_after)
    if rejection.status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    response.headers["Connection"] = "close"
    return response
