"""Revisions: the numbered answers of the tasks of the recall ledger."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sql.gateway import Gateway

AnswerJson = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LastAnswerRow:
    """A task with its last answer; `number` and what follows are None without one.

    `retry_at`: when a query that failed is tried again; None: at once, or none failed.
    `coverage` has the key `changed` besides: chunks with rows that came late since the task began.
    """

    task: UUID
    rule: str
    version: str
    recall: str
    state: str
    request: Mapping[str, Any]
    event: Mapping[str, Any]
    error: str | None
    retry_at: datetime | None
    number: int | None
    final: bool | None
    coverage: Mapping[str, Any] | None
    answer: AnswerJson | None
    estimates: AnswerJson | None
    comparable: float | None
    match: Mapping[str, Any] | None
    forecast: Mapping[str, Any] | None
    at: datetime | None


@dataclass(frozen=True, slots=True)
class LastStateRow:
    """The state of a task, and its last answer; `number` and what follows are None without one."""

    rule: str
    version: str
    eid: UUID
    recall: str
    state: str
    number: int | None
    answer: AnswerJson | None
    coverage: Mapping[str, Any] | None
    estimates: AnswerJson | None


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """A numbered answer of a task."""

    number: int
    final: bool
    coverage: Mapping[str, Any]
    answer: AnswerJson
    estimates: AnswerJson | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedRecallRow:
    """A line of `moirae export recalls`; `sql`: the query of an SQL recall."""

    id: UUID
    eid: UUID
    rule: str
    recall: str
    state: str
    revision: int | None
    final: bool
    coverage: Mapping[str, Any] | None
    answer: AnswerJson | None
    estimates: AnswerJson | None
    forecast: Mapping[str, Any] | None
    key: Mapping[str, Any]
    error: str | None
    sql: str | None


@dataclass(frozen=True, slots=True)
class ExportedHitRow:
    """A line of `moirae export similar`: past event `event` is number `rank` for `query`."""

    query: UUID
    rank: int
    event: str
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRevisionRow:
    """An answer to store; `estimates` may be empty."""

    final: bool
    coverage: Mapping[str, Any]
    answer: AnswerJson
    estimates: AnswerJson
    comparable: float | None
    match: Mapping[str, Any] | None
    forecast: Mapping[str, Any] | None


class RevisionGateway(Gateway):
    """The answers of tasks, numbered without gaps. `TaskGateway` adds them."""

    queries = "revisions"

    def last_answer(self, task: UUID) -> AnswerJson | None:
        """The last answer of a task; None without one."""
        answer: AnswerJson | None = self._value("last_answer", task=task)
        return answer

    def list_last_of_event(self, eid: UUID) -> list[LastAnswerRow]:
        """The last answer of each recall of an event, by the recall's name."""
        return self._records(LastAnswerRow, "list_last_of_event", eid=eid)

    def list_last(self, eids: Sequence[UUID]) -> list[LastStateRow]:
        """The recalls of some events with their last answers, in no order."""
        return self._records(LastStateRow, "list_last", eids=list(eids))

    def list_after(self, task: UUID, number: int) -> list[AnswerRow]:
        """The answers of a task after a number, oldest first."""
        return self._records(AnswerRow, "list_after", task=task, after=number)

    def export_last(self) -> Iterator[ExportedRecallRow]:
        """The last answer of each task, oldest event first."""
        return self._stream(ExportedRecallRow, "export_last")

    def export_hits(self, recall: str | None) -> Iterator[ExportedHitRow]:
        """The last hits of similarity recalls, oldest event first. `recall` None: of all names."""
        return self._stream(ExportedHitRow, "export_hits", recall=recall)
