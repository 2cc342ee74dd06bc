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

    `coverage` has the key `changed` besides: chunks with rows that came late since the task began.
    """

    task: UUID
    rule: str
    version: str
    recall: str
    state: str
    request: Mapping[str, Any]
    error: str | None
    number: int | None
    final: bool | None
    coverage: Mapping[str, Any] | None
    answer: AnswerJson | None
    estimates: AnswerJson | None
    comparable: float | None
    at: datetime | None


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


class RevisionGateway(Gateway):
    """The answers of tasks, numbered without gaps. `TaskGateway` adds them."""

    queries = "revisions"

    def list_last_of_event(self, eid: UUID) -> list[LastAnswerRow]:
        """The last answer of each recall of an event, by the recall's name."""
        return self._records(LastAnswerRow, "list_last_of_event", eid=eid)

    def export_last(self) -> Iterator[ExportedRecallRow]:
        """The last answer of each task, oldest event first."""
        return self._stream(ExportedRecallRow, "export_last")

    def export_hits(self, recall: str | None) -> Iterator[ExportedHitRow]:
        """The last hits of similarity recalls, oldest event first. `recall` None: of all names."""
        return self._stream(ExportedHitRow, "export_hits", recall=recall)
