"""Exceptions of recalls and their queries.

RecallError
├── Cancelled            a query was cancelled before it finished
│   └── ExecutorsAway    no executor of the cluster can run it: it is run again when some can
├── CommandKeyConflict   a command's idempotency key was used for another command
├── FilterFailed         a filter has failed for a row
├── EngineLost           the JVM has exited
├── LimitExceeded        an answer is larger than the limit of a recall
├── NodeDamaged          a summary of chunks cannot be read: their rows can
├── NotSummarised        no summary answers a recall
├── ModelExpired         a learned model was deleted by retention
├── QueryRejected        a query is not allowed
├── SparkRequired        a query, or a part of it, cannot run in this process; Spark can
│   └── MemoryExceeded   it needs more memory than it may have
├── StatementTimeout     a statement was cancelled at its time limit
├── UnknownStream        a name of no revision stream, or of several
└── Unsupported          a query cannot be evaluated: see `recall.query.parsing`
    └── Unsplittable     … piece by piece, but over a whole range
"""

from dataclasses import dataclass


class RecallError(Exception):
    """Base class of the errors of recalls and their queries."""


class ModelExpired(RecallError):
    """The learned model that an answer names was deleted."""


class SparkRequired(RecallError):
    """A query, or a part of it, is not known to have the same result in DuckDB as in Spark.

    The message is the reason.
    """


class MemoryExceeded(SparkRequired):
    """A statement needs more memory than it may have here."""


class StatementTimeout(RecallError):
    """A statement was cancelled because it exceeded its time limit."""

    def __init__(self, limit: float) -> None:
        """`limit`: seconds of processor time."""
        super().__init__(f"exceeded its time limit of {limit:g} s of processor time")


class LimitExceeded(RecallError):
    """A partial answer exceeds a limit. Reading more history cannot make it smaller."""


class CommandKeyConflict(RecallError, ValueError):
    """The idempotency key of a command belongs to a different command."""


class EngineLost(RecallError):
    """The JVM has exited. The recall process exits too; the next process resumes its tasks."""


class NodeDamaged(RecallError):
    """The summary of some chunks cannot be read, or was replaced meanwhile."""


class NotSummarised(RecallError):
    """No summary of chunks answers a recall; the message is the reason."""


class FilterFailed(RecallError):
    """A filter has failed for a row; the message is Spark's."""


class Cancelled(RecallError):
    """A query was cancelled before it finished."""


class ExecutorsAway(Cancelled):
    """No executor of the cluster can run a query now. It is run again when some can."""


@dataclass
class QueryRejected(RecallError):
    """A query is not allowed.

    `line` and `column` count from 1 in the text of the query; `fragment` is the rejected part.
    """

    message: str
    line: int = 1
    column: int = 1
    fragment: str = ""

    def __str__(self) -> str:
        return self.message


class UnknownStream(RecallError):
    """A name that belongs to no revision stream, or to several."""
