"""Events that recalls are about: what was evaluated for them, and whether they have ended."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from sql.gateway import Gateway
from sql.values import replace_nul


@dataclass(frozen=True, slots=True, kw_only=True)
class RecalledEventRow:
    """An event without boundary. `plan`: JSON text. `evaluations`: how often it was evaluated."""

    rule: str
    version: str
    eid: UUID
    event: Mapping[str, Any]
    plan: str
    positions: Mapping[str, Any]
    evaluations: int
    timed_out: bool
    evaluated_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewStageRow:
    """The state of a stage of an event; `has_changed`: whether its rows have changed."""

    rule: str
    version: str
    eid: UUID
    name: str
    state: str
    error: str | None
    has_changed: bool


_STAGE_COLUMNS = tuple(column.name for column in fields(NewStageRow))


@dataclass(frozen=True, slots=True)
class StalledEventRow:
    """An event without progress, with one of its open tasks; None without any."""

    rule: str
    version: str
    eid: UUID
    task: UUID | None


@dataclass(frozen=True, slots=True)
class HistoryChangeRow:
    """A change of the `history` of an alert."""

    history: str
    final: bool
    reason: str
    at: datetime


class RecalledEventGateway(Gateway):
    """The events of all recalls, from the first request to the boundary."""

    queries = "recalled_events"

    def add(
        self,
        rule: str,
        version: str,
        eid: UUID,
        *,
        ts: datetime,
        event: Mapping[str, Any],
        plan: Mapping[str, Any],
    ) -> None:
        """Register an event, unless it is registered."""
        self._execute(
            "add",
            rule=rule,
            version=version,
            eid=eid,
            ts=ts,
            event=Jsonb(replace_nul(event)),
            plan=Jsonb(plan),
        )

    def await_history(self, rule: str, eid: UUID) -> None:
        """Set `history` of the alert of an event to `waiting`, unless it is set."""
        self._execute("await_history", rule=rule, eid=eid)

    def list_open(self, eids: Collection[UUID] | None = None) -> list[RecalledEventRow]:
        """The events with stages or a condition; `eids`: among these, None: all."""
        chosen = None if eids is None else list(eids)
        return self._records(RecalledEventRow, "list_open", eids=chosen)

    def list_ending(self, limit: int) -> list[RecalledEventRow]:
        """Events whose recalls have ended and cannot start again, oldest first."""
        return self._records(RecalledEventRow, "list_ending", limit=limit)

    def is_dropped(self, rule: str, version: str, eid: UUID) -> bool:
        """Whether settling has dropped the event."""
        return bool(self._value("is_dropped", rule=rule, version=version, eid=eid))

    def record_evaluations(
        self, rule: str, evaluations: Sequence[tuple[str, UUID, Mapping[str, Any], int]]
    ) -> set[tuple[str, str, UUID]]:
        """Store evaluations: (version, event, positions, number of the evaluation before).

        Returns the (rule, version, event) of those that are not out of date.
        """
        versions, eids, positions, expected = zip(*evaluations, strict=True)
        cursor = self._execute(
            "record_evaluations",
            rule=rule,
            versions=list(versions),
            eids=list(eids),
            positions=list(map(Jsonb, positions)),
            expected=list(expected),
        )
        return set(cursor.fetchall())

    def lock_for_end(
        self, rule: str, version: str, eid: UUID, *, expected: int
    ) -> list[str] | None:
        """Lock an event to end it; returns the names of its recalls. None: it cannot end now."""
        names: list[str] | None = self._value(
            "lock_for_end", rule=rule, version=version, eid=eid, expected=expected
        )
        return names

    def end(self, rule: str, version: str, eid: UUID) -> None:
        """Record that the event has its boundary."""
        self._execute("end", rule=rule, version=version, eid=eid)

    def put_stages(self, stages: Iterable[NewStageRow]) -> None:
        """Store the states of stages, at least one; without NUL in the errors."""
        columns = zip(*map(attrgetter(*_STAGE_COLUMNS), stages), strict=True)
        values = dict(zip(_STAGE_COLUMNS, map(list, columns), strict=True))
        self._execute("put_stages", **values)

    def stage_errors(self, rule: str, version: str, eid: UUID) -> dict[str, str]:
        """The failed stages of an event with the reasons."""
        return self._pairs("list_stage_errors", rule=rule, version=version, eid=eid)

    def set_history(
        self, rule: str, version: str, eid: UUID, *, history: str, final: bool, reason: str
    ) -> None:
        """Store what the condition says of the alert, if that has changed."""
        self._execute(
            "set_history",
            rule=rule,
            version=version,
            eid=eid,
            history=history,
            final=final,
            reason=replace_nul(reason),
        )

    def list_history(self, alert_id: UUID) -> list[HistoryChangeRow]:
        """The changes of `history` of an alert, oldest first."""
        return self._records(HistoryChangeRow, "list_history", alert_id=alert_id)

    def lock_without_progress(self, timeout: timedelta) -> list[StalledEventRow]:
        """Lock events without progress for some time; a row for each of their open tasks."""
        return self._records(StalledEventRow, "lock_without_progress", timeout=timeout)

    def mark_timed_out(self, eids: Collection[UUID]) -> None:
        self._execute("mark_timed_out", eids=list(eids))

    def count_open(self) -> int:
        """Events with stages or a condition that have no boundary yet."""
        return int(self._value("count_open"))
