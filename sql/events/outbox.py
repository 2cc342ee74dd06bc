"""Settled events and contexts that are not archived yet."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sql.gateway import Gateway


@dataclass(frozen=True, slots=True)
class OutboxEventRow:
    """A settled event. `seq`: its sequence number; `ts`: event time."""

    seq: int
    eid: UUID
    rule: str
    version: str
    ts: datetime
    key: Mapping[str, Any]
    attributes: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class OutboxContextRow:
    """A corpus event with its contexts. `seq`, `number`: its number; `ts`: event time."""

    seq: int
    number: int
    rule: str
    version: str
    eid: UUID
    ts: datetime
    contexts: Mapping[str, Any]
    surroundings: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PendingCountsRow:
    """`pending`: number of rows, up to a limit. `has_closed`: some of them are in closed chunks."""

    pending: int
    has_closed: bool


class OutboxGateway(Gateway):
    """Rows in order of their sequence numbers, after one of them.

    `closed_until`: the end of the newest closed chunk, an event time; None if no chunk is closed.
    """

    queries = "outbox"

    def list_events(self, after: int, limit: int) -> list[OutboxEventRow]:
        """The next settled events."""
        return self._records(OutboxEventRow, "list_events", after=after, limit=limit)

    def count_events(
        self, after: int, limit: int, closed_until: datetime | None
    ) -> PendingCountsRow:
        """Count the next settled events, at most `limit`."""
        return self._count_pending("count_events", after, limit, closed_until)

    def list_contexts(self, after: int, limit: int) -> list[OutboxContextRow]:
        """The next corpus events, with their contexts."""
        return self._records(OutboxContextRow, "list_contexts", after=after, limit=limit)

    def count_contexts(
        self, after: int, limit: int, closed_until: datetime | None
    ) -> PendingCountsRow:
        """Count the next corpus events, at most `limit`."""
        return self._count_pending("count_contexts", after, limit, closed_until)

    def _count_pending(
        self, statement: str, after: int, limit: int, closed_until: datetime | None
    ) -> PendingCountsRow:
        values = {"after": after, "limit": limit, "closed_until": closed_until}
        counts = self._record(PendingCountsRow, statement, **values)
        assert counts is not None
        return counts
