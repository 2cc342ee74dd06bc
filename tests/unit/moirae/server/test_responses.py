"""JSON responses."""

import json
from datetime import UTC, datetime

from moirae.errors import RequestRejected
from moirae.server.responses import bounded_response, error_response, json_response


def test_times_are_in_utc() -> None:
    response = json_response({"at": datetime(2026, 1, 2, tzinfo=UTC)})
    assert response.body == b'{"at":"2026-01-02T00:00:00Z"}'


def test_rows_beyond_the_size_limit_are_left_out() -> None:
    rows = [{"text": "x" * (1 << 20)}] * 5
    answer = json.loads(bytes(bounded_response("rows", rows).body))
    assert (len(answer["rows"]), answer["truncated"]) == (3, True)
    assert json.loads(bytes(bounded_response("rows", rows[:3]).body))["truncated"] is False


def test_rejection_closes_the_connection_and_tells_when_to_retry() -> None:
    response = error_response(RequestRejected(429, "too many pending batches", 5))
    assert response.status_code == 429
    assert (response.headers["Connection"], response.headers["Retry-After"]) == ("close", "5")
    assert response.body == b'{"error":"too many pending batches"}'
