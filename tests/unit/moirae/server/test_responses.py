"""JSON responses."""

import json
from datetime import UTC, datetime

import pytest

from moirae.errors import Conflict, RequestRejected, Unreachable
from moirae.server import responses
from moirae.server.responses import error_response, json_response


def test_times_are_in_utc() -> None:
    response = json_response({"at": datetime(2026, 1, 2, tzinfo=UTC)})
    assert response.body == b'{"at":"2026-01-02T00:00:00Z"}'


def test_response_beyond_the_size_limit_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses, "MAX_RESPONSE_BYTES", 20)
    with pytest.raises(RequestRejected, match="use a lower limit"):
        json_response(["x" * 20])


def test_rejection_closes_the_connection_and_tells_when_to_retry() -> None:
    response = error_response(RequestRejected(429, "too many pending batches", 5))
    assert response.status_code == 429
    assert (response.headers["Connection"], response.headers["Retry-After"]) == ("close", "5")
    assert json.loads(bytes(response.body)) == {
        "type": "about:blank",
        "title": "Too many requests",
        "status": 429,
        "detail": "too many pending batches",
    }


def test_errors_of_operations_are_problem_details() -> None:
    response = error_response(Conflict("in use"))
    assert (response.status_code, response.media_type) == (409, "application/problem+json")
    assert json.loads(bytes(response.body))["type"] == "urn:moirae:problem:conflict"
    assert error_response(Unreachable("gone")).headers["Retry-After"] == "5"
