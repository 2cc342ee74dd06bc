"""Events of rules."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sql.gateway import Gateway


@dataclass(frozen=True, slots=True)
class NewEventRow:
    """An event to store. `ts`: event time. `fingerprint`: the values of `key` as JSON."""

    eid: UUID
    rule: str
    version: str
    ts: datetime
    fingerprint: str
    key: Mapping[str, Any]
    attributes: Mapping[str, Any]
    settled: bool

    def to_json(self) -> dict[str, Any]:
        """The row for a statement that inserts events."""
        return {
            "eid": self.eid,
            "rule": self.rule,
            "version": self.version,
            "ts": self.ts,
            "fingerprint": self.fingerprint,
            "key": self.key,
            "attributes": self.attributes,
            "settled": self.settled,
        }


@dataclass(frozen=True, slots=True)
class UnsettledEventRow:
    """A detected event. `ts`: event time."""

    eid: UUID
    ts: datetime
    fingerprint: str
    key: Mapping[str, Any]
    attributes: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class EventAttributesRow:
    """What other rules read of an event. `ts`: event time."""

    ts: datetime
    attributes: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StoredEventRow:
    """An event. `ts`: event time; `at`: when it was stored. `past`: found in history."""

    eid: UUID
    rule: str
    version: str
    ts: datetime
    key: Mapping[str, Any]
    attributes: Mapping[str, Any]
    settled: bool
    past: bool
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Which events to list.

    `rule`: the name of a rule with or without its group. `since`, `until`: a range of event time.
    `after`: time and ID of the last event of the previous page.
    """

    rule: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    after: tuple[datetime, UUID] | None = None

    def parameters(self) -> dict[str, Any]:
        """Values of a statement that lists events."""
        cursor_ts, cursor_eid = self.after or (None, None)
        return {
            "rule": self.rule,
            "since": self.since,
            "until": self.until,
            "cursor_ts": cursor_ts,
            "cursor_eid": cursor_eid,
        }


@dataclass(frozen=True, slots=True)
class ExportedEventRow:
    """A settled event. `ts`: event time."""

    eid: UUID
    rule: str
    ts: datetime
    key: Mapping[str, Any]
    attributes: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SettledEventIdRow:
    """What identifies a settled event in the archive. `eid`: the ID as text."""

    rule: str
    version: str
    eid: str


@dataclass(frozen=True, slots=True)
class PastEventRow:
    """An event with its alert and the notes of operators.

    `alert` and what follows up to `last_at` are None without an alert. `ends_at`: also None while
    the alert is open. `contexts`: None until they are computed. `again`: the number of alerts with
    the same fingerprint that started within a week after this one. `notes`: kind, author, text,
    tag and at (as ISO 8601 text) of each, oldest first.
    """

    eid: UUID
    rule: str
    ts: datetime
    attributes: Mapping[str, Any]
    key: Mapping[str, Any]
    alert: UUID | None
    state: str | None
    annotations: Mapping[str, str] | None
    starts_at: datetime | None
    ends_at: datetime | None
    last_at: datetime | None
    contexts: Mapping[str, Any] | None
    again: int
    notes: Sequence[Mapping[str, Any]]


class EventGateway(Gateway):
    """The events of all rules."""

    queries = "events"

    def put(self, events: Iterable[NewEventRow]) -> None:
        """Store different events. A stored event changes only when it is settled."""
        self._execute_rows("put", list(map(NewEventRow.to_json, events)))

    def put_early(self, events: Iterable[NewEventRow]) -> None:
        """Store different events of open windows. A stored one gets their attributes until it is settled."""
        self._execute_rows("put_early", list(map(NewEventRow.to_json, events)))

    def delete_unsettled(self, rule: str, horizon: datetime) -> dict[UUID, str]:
        """Delete the detected events of a rule before an event time; return their fingerprints."""
        return self._pairs("delete_unsettled", rule=rule, horizon=horizon)

    def delete_other_unsettled(self, rule: str, eids: Sequence[UUID]) -> dict[UUID, str]:
        """Delete the detected events of a rule apart from some; return their fingerprints."""
        return self._pairs("delete_other_unsettled", rule=rule, eids=list(eids))

    def list_unsettled(self, rule: str, fingerprints: Iterable[str]) -> list[UnsettledEventRow]:
        """The detected events of some fingerprints of a rule, in (ts, eid) order."""
        return self._records(
            UnsettledEventRow, "list_unsettled", rule=rule, fingerprints=list(fingerprints)
        )

    def list_of_rule(
        self, rule: str, start: datetime | None, end: datetime | None
    ) -> list[EventAttributesRow]:
        """The events of a rule in a range of event time, oldest first. None: without that bound."""
        return self._records(EventAttributesRow, "list_of_rule", rule=rule, start=start, end=end)

    def list_newest(self, selection: EventFilter, *, limit: int | None) -> list[StoredEventRow]:
        """Events, newest first."""
        return self._records(StoredEventRow, "list_newest", limit=limit, **selection.parameters())

    def count_newest(self, selection: EventFilter) -> int:
        """The number of events that `list_newest` returns without a limit."""
        return self._count("list_newest", limit=None, **selection.parameters())

    def get(self, eid: UUID) -> StoredEventRow | None:
        """An event as the version of its rule that stored it last has it."""
        return self._record(StoredEventRow, "get", eid=eid)

    def export(self) -> Iterator[ExportedEventRow]:
        """Settled events, oldest first."""
        return self._stream(ExportedEventRow, "export")

    def list_settled_ids(self, last_number: int) -> list[SettledEventIdRow]:
        """Settled events up to a sequence number of the archive, in no order."""
        return self._records(SettledEventIdRow, "list_settled_ids", last_number=last_number)

    def list_past(self, eids: Iterable[UUID]) -> list[PastEventRow]:
        """Events with their alerts, one for each version of the rule, in no order."""
        return self._records(PastEventRow, "list_past", eids=list(eids))
