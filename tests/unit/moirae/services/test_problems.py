"""Errors as problem details, and back."""

import errno
import os

import orjson
import psycopg
import pytest
from psycopg import errors
from pydantic import Field, ValidationError

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
from moirae.services.models import Seconds
from moirae.services.operations.alerts import AlertQuery, NoteBody
from moirae.services.problems import (
    describe_error,
    describe_invalid_argument,
    explain_error,
    parse_problem,
)


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


class _Query(AlertQuery):
    """The arguments of a list, and of other kinds."""

    span: Seconds = Field(0.0, le=100)
    level: float = 0.0
    token: str = Field("", max_length=3)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "since",
            "7x",
            "since: '7x' is not a time such as 2026-01-31T12:00Z, nor a duration before now such "
            "as 7d",
        ),
        ("until", "0001-01-01T00:00+14:00", "until: '0001-01-01T00:00+14:00' is out of range"),
        ("label", ["severity"], "label: 'severity' must be NAME=VALUE, such as severity=page"),
        ("label", ["a=b"] * 21, "label: must have at most 20 values"),
        ("nosuch", "x", "nosuch: unknown parameter"),
        ("limit", "x", "limit: 'x' must be an integer"),
        ("limit", 0, "limit: 0 must be at least 1"),
        ("limit", "5000", "limit: '5000' must be at most 1000"),
        ("count", "maybe", "count: 'maybe' must be true or false"),
        ("text", "", "text: '' must not be empty"),
        ("text", "x" * 201, f"text: '{'x' * 79}… must have at most 200 characters"),
        ("text", "a\x00", "text: 'a\\x00' must not contain the NUL character"),
        ("text", ["a"], "text: must be text"),
        (
            "state",
            ["open"],
            "state: 'open' must be pending, firing, resolved, provisional or withdrawn",
        ),
        ("span", "1x", "span: '1x' is not a duration such as 1h30m, nor a number of seconds"),
        ("span", "2h", "span: 7200.0 must be at most 100"),
        ("span", "nan", "span: nan must be a finite number"),
        ("level", "high", "level: 'high' must be a number"),
        ("token", "secret", "token: must have at most 3 characters"),
    ],
)
def test_invalid_argument_is_described_with_name_and_value(
    name: str, value: object, message: str
) -> None:
    with pytest.raises(ValidationError) as failed:
        _Query.model_validate({name: value})
    assert describe_invalid_argument(failed.value.errors()[0]) == message


def test_missing_argument_is_named() -> None:
    with pytest.raises(ValidationError) as failed:
        NoteBody.model_validate({})
    assert describe_invalid_argument(failed.value.errors()[0]) == "text: required, but missing"


@pytest.mark.parametrize("number", [errno.EACCES, errno.ENOSPC, errno.ENOTDIR, errno.EROFS])
def test_failure_of_the_machine_names_the_file(number: int) -> None:
    explained = explain_error(OSError(number, os.strerror(number), "/mnt/a"))
    assert explained is not None
    assert (str(explained), explained.exit_code) == (f"/mnt/a: {os.strerror(number)}", 1)


def test_missing_file_that_nobody_expected_is_a_fault_of_the_program() -> None:
    assert explain_error(FileNotFoundError(errno.ENOENT, "No such file", "/a")) is None
