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
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
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
