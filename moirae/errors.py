"""Errors whose messages are written for users.

MoiraeError
├── BackupDamaged      a file of a backup is missing, or is not what was backed up
├── DeliveryFailed     a message that a receiver has not taken
├── OutputError        standard output cannot be written
├── NotImported        a Sigma rule, or part of one, that cannot be imported exactly
├── ProblemsError      files that cannot be used, with all their problems
├── RequestRejected    an HTTP request that is not served
├── RoleLost           another process has taken over the role
├── RoleTaken          another process holds the role
├── Stopped            a process was asked to stop
├── TopicChanged       a topic is no longer as it was seen
├── TopicError         a topic cannot be read now
├── TemplateFault      a template that is rejected or fails
├── Undecided          the truth of a condition for a row is known to Spark alone
├── Unreachable        a service is unreachable; trying again makes sense
└── UsageError         a wrong command line, a wrong argument or a missing workspace
    ├── Conflict           the change is not possible in the present state
    ├── Forbidden          the token's role does not permit the operation
    └── NotFound           an ID or name that nothing has
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from sql.topics import SourceErrorKind

Severity = Literal["error", "warning", "note"]


class MoiraeError(Exception):
    """An error with a message for the user. The command line prints it without a trace."""

    exit_code = 1


class Unreachable(MoiraeError):
    """A service that is needed cannot be reached now: trying again makes sense."""

    exit_code = 75


class TooManySamples(MoiraeError):
    """A query has more samples than one answer may have: ask for a shorter time."""


class TopicError(MoiraeError):
    """A topic cannot be read now. The message says what is wrong, and what to do."""

    def __init__(self, kind: SourceErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Undecided(MoiraeError):
    """The truth of a condition for a row is known to Spark alone."""


class TopicChanged(MoiraeError):
    """The topic is no longer as it was seen; it is to be seen again."""


class BackupDamaged(MoiraeError):
    """A file of a backup is missing, or is not what was backed up."""


class UsageError(MoiraeError):
    """The command line or an argument is wrong, or there is no workspace."""

    exit_code = 2


class NotImported(MoiraeError):
    """A Sigma rule that cannot be imported exactly. `kind`: under which it is counted."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class OutputError(MoiraeError):
    """Standard output cannot be written, as on a full device."""


class NotFound(UsageError):
    """Nothing has the given ID or name."""


class Conflict(UsageError):
    """The change is not possible in the present state, such as for a name that is in use."""


class Forbidden(UsageError):
    """The token is not valid, or its role does not permit the operation."""


@dataclass(frozen=True, slots=True)
class Problem:
    """An error, warning or note about a file. Line and column count from 1; None where unknown."""

    file: str
    line: int | None
    column: int | None
    message: str
    severity: Severity = "error"

    def __str__(self) -> str:
        position = self.file
        for number in (self.line, self.column):
            if number is not None:
                position += f":{number}"
        if self.severity == "error":
            return f"{position}: {self.message}"
        return f"{position}: {self.severity}: {self.message}"


def has_errors(problems: Iterable[Problem]) -> bool:
    """Whether any of the problems is an error, not a warning."""
    return any(problem.severity == "error" for problem in problems)


class ProblemsError(MoiraeError):
    """Files that cannot be used, with all problems that were found in them."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


class RoleLost(MoiraeError):
    """Another process has taken over the role: this one must not write any more.

    The supervisor starts it again at once: an erasure ends all processes for what they have in
    memory. If another process has the role, it ends by `RoleTaken`.
    """

    exit_code = 76


class RoleTaken(MoiraeError):
    """Another process of this workspace holds the role."""


class Stopped(MoiraeError):
    """A process was asked to stop. What it had not finished is done again by the next."""


class TemplateFault(MoiraeError):
    """A template that is rejected or fails. `line`: line of its text, from 1."""

    def __init__(self, message: str, line: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


class DeliveryFailed(MoiraeError):
    """A message that a receiver has not taken.

    `retry_after`: seconds after which the receiver wants it again. `is_rejected`: the receiver
    refuses this message, not others. `is_deferred`: it takes others, and later this one.
    """

    def __init__(
        self,
        reason: str,
        *,
        retry_after: float | None = None,
        is_rejected: bool = False,
        is_deferred: bool = False,
    ) -> None:
        super().__init__(reason)
        self.retry_after = retry_after
        self.is_rejected = is_rejected
        self.is_deferred = is_deferred


class RequestRejected(MoiraeError):
    """An HTTP request that is not served.

    `status`: the HTTP status; `retry_after`: seconds after which the client may try again.
    """

    def __init__(self, status: int, reason: str, retry_after: int | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.retry_after = retry_after


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or the name of its class."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


class RuleFailed(MoiraeError):
    """A rule fails on its rows, such as by a division by zero."""

    def __init__(self, rule: str, error: Exception) -> None:
        super().__init__(f"{rule} fails on its rows: {first_line(error)}")
