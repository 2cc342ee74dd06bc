"""What is needed to compute stored answers again, and what has changed since."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sql.gateway import Gateway


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatableRow:
    """The inputs of the last answer of a task.

    `pieces`, `corpus`, `model`: None after a restart, until the next turn. `piece_count`: how many
    pieces there are where `pieces` names runs of chunks, see `recall.ledger.piece_lists`; else None.
    `seen`: provenance of an SQL answer. `answered_at`: when the answer was stored.
    """

    id: UUID
    eid: UUID
    rule: str
    version: str
    recall: str
    request: Mapping[str, Any]
    event: Mapping[str, Any]
    pieces: Sequence[tuple[int, int | None, int]] | None
    piece_count: int | None
    corpus: int | None
    model: int | None
    seen: Sequence[Any]
    started_at: datetime
    number: int
    coverage: Mapping[str, Any]
    answer: Sequence[Mapping[str, Any]]
    answered_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ErasedSinceRow:
    """An erasure of rows of some streams. `first_ts`, `last_ts`: between which event times, in
    microseconds. `events`: number of erased events.
    """

    streams: Sequence[str]
    first_ts: int
    last_ts: int
    events: int
    started_at: datetime


@dataclass(frozen=True, slots=True)
class ExpiredChunkRow:
    """A chunk whose rows are deleted. `to_ts`: its end in microseconds."""

    id: int
    to_ts: int
    expired_at: datetime


class ReplayGateway(Gateway):
    """Inputs of stored answers, and their changes after a time `moment` of the clock."""

    queries = "replay"

    def list_repeatable(self, event_or_task_id: UUID) -> list[RepeatableRow]:
        """The recalls of an event, or one recall, that have an answer, by name."""
        return self._records(RepeatableRow, "list_repeatable", id=event_or_task_id)

    def list_erased_since(self, moment: datetime) -> list[ErasedSinceRow]:
        """What was erased after the moment."""
        return self._records(ErasedSinceRow, "list_erased_since", moment=moment)

    def list_chunks_expired_since(self, moment: datetime) -> list[ExpiredChunkRow]:
        """Chunks that have expired and whose rows existed at the moment."""
        return self._records(ExpiredChunkRow, "list_chunks_expired_since", moment=moment)

    def context_changed_at(
        self, rule: str, version: str, eid: UUID, moment: datetime
    ) -> datetime | None:
        """When the context of an event was computed again after the moment; None: it was not."""
        changed_at: datetime | None = self._value(
            "context_changed_at", rule=rule, version=version, eid=eid, moment=moment
        )
        return changed_at

    def relation_changed_at(
        self, relations: Sequence[str], ts: datetime, moment: datetime
    ) -> tuple[str, datetime] | None:
        """The first relation that got other rows for an event time `ts` after the moment."""
        row = self._execute(
            "relation_changed_at", relations=relations, ts=ts, moment=moment
        ).fetchone()
        return None if row is None else (row[0], row[1])
