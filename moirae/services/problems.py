"""Errors for users, and as problem details (RFC 9457) and back. No I/O."""

import errno
from collections.abc import Mapping
from typing import Any

import sql
from archiver.errors import ArchiverError, SourceUnreachable, StorageFailed
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
    first_line,
)

MEDIA_TYPE = "application/problem+json"
_TYPE_PREFIX = "urn:moirae:problem:"
# Subclasses before their base classes.
_KINDS: tuple[tuple[str, type[MoiraeError], int, str], ...] = (
    ("not-found", NotFound, 404, "Not found"),
    ("conflict", Conflict, 409, "Conflict"),
    ("forbidden", Forbidden, 403, "Permission denied"),
    ("invalid", UsageError, 400, "Invalid request"),
    ("rule-files", ProblemsError, 422, "Invalid rule files"),
    ("unreachable", Unreachable, 503, "Service unavailable"),
    ("failed", MoiraeError, 503, "Operation failed"),
)
_TITLES = {
    400: "Invalid request",
    401: "Token required",
    403: "Permission denied",
    404: "Not found",
    405: "Method not allowed",
    408: "Request timeout",
    409: "Conflict",
    413: "Request too large",
    415: "Unsupported media type",
    422: "Invalid rule files",
    429: "Too many requests",
    503: "Service unavailable",
}
# Statements that PostgreSQL has ended, by SQLSTATE.
_DATABASE_FAILURES = {
    "40001": "another process changed the same rows at the same time: try again",
    "40P01": "another process changed the same rows at the same time: try again",
    "53100": "its disk is full: free some space, then try again",
    "53200": "out of memory: give it more, or try again when it is less busy",
    "55P03": "another process holds a lock for too long: try again",
    "57014": "a statement took longer than its time limit: try again when it is less busy",
}
# What an argument must be, by the type of pydantic's error. Fields are of its context.
_EXPECTATIONS = {
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "finite_number": "must be a finite number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "greater_than": "must be greater than {gt:.12g}",
    "greater_than_equal": "must be at least {ge:.12g}",
    "int_from_float": "must be an integer",
    "int_parsing": "must be an integer",
    "int_parsing_size": "must be a smaller integer",
    "int_type": "must be an integer",
    "less_than": "must be less than {lt:.12g}",
    "less_than_equal": "must be at most {le:.12g}",
    "list_type": "must be a list",
    "dict_type": "must be a JSON object",
    "model_attributes_type": "must be a JSON object",
    "model_type": "must be a JSON object",
    "string_pattern_mismatch": "must match {pattern}",
    "string_too_long": "must have at most {max_length:,} characters",
    "string_type": "must be text",
    "too_long": "must have at most {max_length:,} values",
    "too_short": "must have at least {min_length:,} values",
    "uuid_parsing": "must be a whole ID",
    "uuid_type": "must be a whole ID",
}
_TIME_ERROR = "datetime_"  # begins the types of errors about times
_TIME_EXPECTATION = "is not a time such as 2026-01-31T12:00Z, nor a duration before now such as 7d"
# Errors of files that the machine causes, not the program.
_MACHINE_FAILURES = frozenset(
    [
        errno.EACCES,
        errno.EDQUOT,
        errno.EFBIG,
        errno.EIO,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.ENOSPC,
        errno.ENOTDIR,
        errno.EROFS,
        errno.ESTALE,
    ]
)
_SECRET_ARGUMENTS = ("code", "token")
_MAX_SHOWN = 80  # characters of an invalid value


def describe_invalid_argument(details: Mapping[str, Any]) -> str:
    """The name and the value of an invalid argument, and what it must be.

    `details`: of an error of pydantic whose location begins with the argument.
    """
    name = ".".join(part for part in details["loc"] if isinstance(part, str)) or "body"
    if details["type"] == "missing":
        return f"{name}: required, but missing"
    if details["type"] == "extra_forbidden":
        return f"{name}: unknown parameter"
    value = details.get("input")
    if name in _SECRET_ARGUMENTS or not isinstance(value, bool | int | float | str):
        return f"{name}: {_expect(details)}"
    return f"{name}: {_shorten(value)} {_expect(details)}"


def _expect(details: Mapping[str, Any]) -> str:
    """What an argument must be."""
    kind, context = details["type"], details.get("ctx", {})
    if kind in _EXPECTATIONS:
        return _EXPECTATIONS[kind].format(**context)
    if kind == "string_too_short":
        few = context["min_length"]
        return "must not be empty" if few == 1 else f"must have at least {few:,} characters"
    if kind in ("enum", "literal_error"):
        return f"must be {context['expected']}".replace("'", "")
    if kind.startswith(_TIME_ERROR):
        return _TIME_EXPECTATION
    message: str = details["msg"]
    return message.removeprefix("Value error, ")


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def explain_error(error: Exception) -> MoiraeError | None:
    """The error as one whose message is for the user; None: a fault of the program."""
    if isinstance(error, MoiraeError):
        return error
    if isinstance(error, StorageFailed | SourceUnreachable):
        return Unreachable(str(error))
    if isinstance(error, ArchiverError):
        return MoiraeError(str(error))
    if isinstance(error, sql.OperationalError | sql.InterfaceError):
        return _explain_database_error(error)
    if isinstance(error, sql.DataError):
        return UsageError(f"invalid value: {first_line(error)}")
    if isinstance(error, OSError) and error.errno in _MACHINE_FAILURES:
        location = "" if error.filename is None else f"{error.filename}: "
        return MoiraeError(f"{location}{error.strerror}")
    return None


def _explain_database_error(error: sql.DatabaseError) -> MoiraeError:
    if sql.is_connection_failure(error):
        return Unreachable(f"PostgreSQL: {first_line(error)}")
    reason = _DATABASE_FAILURES.get(error.sqlstate or "", first_line(error))
    return MoiraeError(f"PostgreSQL: {reason}")


def describe_error(error: MoiraeError) -> dict[str, Any]:
    """The problem details of an error."""
    if isinstance(error, RequestRejected):
        return describe_rejection(error.status, error.reason)
    for kind, error_type, status, title in _KINDS:
        if isinstance(error, error_type):
            details: dict[str, Any] = {
                "type": f"{_TYPE_PREFIX}{kind}",
                "title": title,
                "status": status,
                "detail": str(error),
            }
            if isinstance(error, ProblemsError):
                details["problems"] = error.problems
            return details
    raise AssertionError(error)


def describe_rejection(status: int, reason: str) -> dict[str, Any]:
    """The problem details of a request that is not served."""
    kinds = {status: kind for kind, _, status, _ in reversed(_KINDS)}
    kind = kinds.get(status)
    return {
        "type": "about:blank" if kind is None else f"{_TYPE_PREFIX}{kind}",
        "title": _TITLES.get(status, "Request refused"),
        "status": status,
        "detail": reason,
    }


def parse_problem(details: Mapping[str, Any]) -> MoiraeError:
    """The error that problem details describe."""
    kind = str(details.get("type", "")).removeprefix(_TYPE_PREFIX)
    message = str(details.get("detail") or details.get("title") or "request refused")
    if kind == "rule-files" and "problems" in details:
        return ProblemsError(Problem(**problem) for problem in details["problems"])
    if details.get("status") == 401:
        return Forbidden(message)
    for name, error_type, _, _ in _KINDS:
        if name == kind:
            return error_type(message)
    return MoiraeError(message)
