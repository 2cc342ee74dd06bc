"""Errors as problem details, and back."""

import orjson
import psycopg
import pytest
from psycopg import errors

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
from moirae.services.problems import describe_error, explain_error, parse_problem


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


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (psycopg.OperationalError("connection refused\nIs it running?"), Unreachable, "refused"),
        (psycopg.InterfaceError("the connection is closed"), Unreachable, "closed"),
        (errors.AdminShutdown("terminating connection"), Unreachable, "terminating"),
        (errors.TooManyConnections("too many clients"), Unreachable, "too many"),
        (errors.ConnectionFailure("lost"), Unreachable, "lost"),
        (errors.DiskFull("could not extend file"), MoiraeError, "its disk is full"),
        (errors.LockNotAvailable("lock timeout"), MoiraeError, "holds a lock"),
        (errors.QueryCanceled("statement timeout"), MoiraeError, "time limit"),
        (errors.ConfigurationLimitExceeded("limit\nDETAIL"), MoiraeError, "PostgreSQL: limit"),
    ],
)
def test_only_a_lost_connection_makes_the_database_unreachable(
    error: Exception, kind: type[MoiraeError], message: str
) -> None:
    explained = explain_error(error)
    assert type(explained) is kind
    assert message in str(explained) and "\n" not in str(explained)


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
