"""Errors as problem details, and back."""

import orjson
import pytest

from moirae.errors import (
    Conflict,
    Forbidden,
    MoiraeError,
    NotFound,
    Problem,
    ProblemsError,
    RequestRejected,
    Unreachable,
    UsageError,
)
from moirae.services.problems import describe_error, parse_problem


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (NotFound("no alert"), 404),
        (Conflict("in use"), 409),
        (Forbidden("role admin required"), 403),
        (UsageError("ambiguous"), 400),
        (Unreachable("database"), 503),
        (MoiraeError("disk"), 503),
    ],
)
def test_error_of_a_server_is_the_same_error_for_its_client(
    error: MoiraeError, status: int
) -> None:
    details = orjson.loads(orjson.dumps(describe_error(error)))
    received = parse_problem(details)
    assert details["status"] == status
    assert (type(received), str(received)) == (type(error), str(error))
    assert received.exit_code == error.exit_code


def test_problems_of_files_keep_their_positions() -> None:
    problem = Problem("rules.yaml", 3, 5, "unknown key", "warning")
    details = orjson.loads(orjson.dumps(describe_error(ProblemsError([problem]))))
    received = parse_problem(details)
    assert isinstance(received, ProblemsError)
    assert received.problems == (problem,)


def test_invalid_token_is_a_usage_error_of_the_client() -> None:
    received = parse_problem(describe_error(RequestRejected(401, "valid token required")))
    assert (type(received), received.exit_code) == (Forbidden, 2)


@pytest.mark.parametrize("details", [{}, {"type": "about:blank", "title": "Bad gateway"}])
def test_unknown_problem_is_an_error(details: dict[str, str]) -> None:
    assert type(parse_problem(details)) is MoiraeError
