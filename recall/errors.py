"""What can go wrong with recalls.

RecallError
├── EngineLost    the JVM is gone
├── Exceeded      an answer is larger than a recall's may be
├── GivenUp       a query was ended before its time
├── KeyTaken      a command's key was used for another command
├── NotPlain      a query is not one that this process evaluates
├── NotServed     a recall is not one that this process answers
├── Refusal       a query is not allowed
└── Unsupported   a query cannot be taken apart: see `recall.query.shape`
"""

from dataclasses import dataclass


class RecallError(Exception):
    """An error of recalls and their queries."""


class SparkRequired(RecallError):
    """This engine cannot answer; Spark can."""


class NotPlain(RecallError):
    """A query, or a part of it, whose meaning is left to Spark."""


class LimitExceeded(RecallError):
    """A recall holds more than it may. More of history can only make it worse."""


class CommandKeyConflict(RecallError, ValueError):
    """The key of a command names another one."""


class EngineLost(RecallError):
    """The JVM is gone, and this process with it: the next one goes on."""


class Cancelled(RecallError):
    """A query was ended before its time."""


@dataclass
class QueryRejected(RecallError):
    """Why a query is refused, and the line and column (from 1) in its text; `fragment`: the part at fault."""

    message: str
    line: int = 1
    column: int = 1
    fragment: str = ""

    def __str__(self) -> str:
        return self.message
