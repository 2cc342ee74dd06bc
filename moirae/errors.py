"""What users are told when something is wrong.

MoiraeError
├── ProblemsError    wrong files: every problem at once, each with its place
├── Refused          a request that the server does not serve
├── Replaced         another process has taken over
├── Taken            another process holds the role
├── TemplateFault    a template is refused or fails
├── TookTooLong      a statement was over its limit
├── Unreachable      what is away now may be back soon
└── UsageError       a wrong command line or a missing workspace
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning"]


class MoiraeError(Exception):
    """An error whose message is written for the user; the command line prints it without a trace."""

    exit_code = 1


class Unreachable(MoiraeError):
    """Something that is away now may be back soon: trying again makes sense."""

    exit_code = 75


class UsageError(MoiraeError):
    """The command was called in a way it cannot serve."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault in a file. Line and column count from 1; None where the file has no such place."""

    file: str
    line: int | None
    column: int | None
    message: str
    severity: Severity = "error"

    def __str__(self) -> str:
        place = [str(part) for part in (self.file, self.line, self.column) if part is not None]
        note = "warning: " if self.severity == "warning" else ""
        return f"{':'.join(place)}: {note}{self.message}"


class ProblemsError(MoiraeError):
    """Files that cannot be used, with every problem found in them."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class RoleLost(MoiraeError):
    """Another process of this role has started; this one must not write any more."""


class RoleTaken(MoiraeError):
    """Another process of this workspace holds the role."""


class StatementTimeout(MoiraeError):
    """A statement was ended: it was over its limit."""

    exit_code = Unreachable.exit_code  # the next process goes on


class TemplateFault(MoiraeError):
    """A template that is refused or fails, and the line of its text, from 1."""

    def __init__(self, message: str, line: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


class RequestRejected(MoiraeError):
    """A request that is not served: status, reason, and after how many seconds trying again makes sense."""

    def __init__(self, status: int, reason: str, retry_after: int | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.retry_after = retry_after
