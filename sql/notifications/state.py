"""The state of notifications: position, groups, what receivers were told, alerts that wait."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from sql.gateway import Gateway
from sql.present_alert import PresentAlertRow
from sql.values import replace_nul


@dataclass(frozen=True, slots=True)
class AlertChangeRow:
    """A change of an alert; `key`: the alert."""

    xid: int
    id: int
    key: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifiedAlertRow(PresentAlertRow):
    """An alert as notifications need it. `raised_at`: when it was stored, if it never fired.

    `end_reason`: ended or no_data; None: not known. `incident`: in which it is, None: not placed.
    """

    raised_at: datetime
    acknowledged: bool
    incident: UUID | None
    end_reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyGroupRow:
    """A group of alerts. `members`: IDs of alerts."""

    route: str
    key: str
    labels: Mapping[str, str]
    due_at: datetime
    has_flushed: bool
    members: Sequence[UUID]

    def to_json(self) -> dict[str, Any]:
        """The columns for a statement."""
        return {
            "id": make_id(self.route, self.key),
            "route": self.route,
            "key": self.key,
            "labels": self.labels,
            "due_at": self.due_at,
            "has_flushed": self.has_flushed,
            "members": self.members,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyLogRow:
    """What a receiver was told last about a group. `starts`: times of firing alerts, by ID."""

    receiver: str
    key: str
    firing: Sequence[str]
    resolved: Sequence[str]
    at: datetime
    starts: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """The columns for a statement."""
        return {
            "id": make_id(self.receiver, self.key),
            "receiver": self.receiver,
            "key": self.key,
            "firing": self.firing,
            "resolved": self.resolved,
            "at": self.at,
            "starts": self.starts,
        }


@dataclass(frozen=True, slots=True)
class HeldAlertRow:
    """An alert whose first message waits. `reason`: late or history."""

    alert_id: UUID
    reason: str
    since: datetime


@dataclass(frozen=True, slots=True)
class NotifiedRuleRow:
    """A rule. `where_wait`, `history_wait`: durations; None where the rule has none.

    `recalls`: their number.
    """

    rule: str
    has_condition: bool
    where_wait: str | None
    history_wait: str | None
    recalls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerOfEventRow:
    """The last answer of a recall of an event. `kind`: sql or similar. `attributes`: the event's."""

    eid: UUID
    rule: str
    recall: str
    kind: str
    number: int
    final: bool
    coverage: Mapping[str, Any]
    answer: Sequence[Mapping[str, Any]] | None
    comparable: float | None
    match: Mapping[str, Any] | None
    forecast: Mapping[str, Any] | None
    attributes: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class FixRow:
    """The alert of a past event. `resolution`, `tag`, `author`: None where none was recorded.

    `effect`: what a resolution that is no fix says, such as `did not help`.
    """

    eid: UUID
    alert: UUID
    summary: str | None
    starts_at: datetime
    ends_at: datetime | None
    resolution: str | None
    tag: str | None
    author: str | None
    effect: str | None = None


def make_id(*parts: str) -> str:
    """A short text that stands for texts of any length."""
    content = "\0".join(parts).encode("utf-8", "surrogatepass")
    return blake2b(content, digest_size=16).hexdigest()


class NotifyStateGateway(Gateway):
    """What the process of notifications continues from."""

    queries = "notify_state"

    def get_position(self) -> tuple[int, int] | None:
        """Up to which change, by transaction and number, alerts are notified; None: none yet."""
        row = self._execute("get_position").fetchone()
        return None if row is None or row[0] is None else (row[0], row[1])

    def put_position(self, xid: int, change: int) -> None:
        """Store up to which change alerts are notified."""
        self._execute("put_position", xid=xid, change=change)

    def list_alert_changes(self, xid: int, change: int, *, limit: int) -> list[AlertChangeRow]:
        """Changes of alerts after a position, in order."""
        return self._records(
            AlertChangeRow, "list_alert_changes", xid=str(xid), id=change, limit=limit
        )

    def list_raised_after(self, xid: int, change: int, ids: Collection[UUID]) -> list[UUID]:
        """Of some alerts, those that were stored as firing first after a position."""
        return self._column("list_raised_after", xid=str(xid), id=change, ids=list(ids))

    def list_alerts(self, ids: Collection[UUID]) -> list[NotifiedAlertRow]:
        """Alerts as they are now, in no order."""
        if not ids:
            return []
        return self._records(NotifiedAlertRow, "list_alerts", ids=list(ids))

    def list_active(self) -> list[UUID]:
        """The alerts that fire now."""
        return self._column("list_active")

    def list_groups(self) -> list[NotifyGroupRow]:
        """All groups, in no order."""
        return self._records(NotifyGroupRow, "list_groups")

    def put_groups(self, groups: Iterable[NotifyGroupRow]) -> None:
        """Add or replace groups."""
        self._execute_rows("put_groups", [group.to_json() for group in groups])

    def delete_groups(self, keys: Iterable[tuple[str, str]]) -> None:
        """Remove groups by route and key."""
        ids = [make_id(*key) for key in keys]
        if ids:
            self._execute("delete_groups", ids=ids)

    def list_log(self) -> list[NotifyLogRow]:
        """What receivers were told last, in no order."""
        return self._records(NotifyLogRow, "list_log")

    def put_log(self, entries: Iterable[NotifyLogRow]) -> None:
        """Store what receivers were told."""
        self._execute_rows("put_log", [entry.to_json() for entry in entries])

    def delete_old_log(self, min_age: timedelta) -> None:
        """Forget groups all of whose alerts have ended, some time after the receiver was told."""
        self._execute("delete_old_log", min_age=min_age)

    def list_held(self) -> list[HeldAlertRow]:
        """Alerts whose first message waits."""
        return self._records(HeldAlertRow, "list_held")

    def put_held(self, alerts: Mapping[UUID, str]) -> None:
        """Have first messages wait, for a reason."""
        rows = [{"alert_id": alert, "reason": reason} for alert, reason in alerts.items()]
        if rows:
            self._execute_many("put_held", rows)

    def delete_held(self, alerts: Collection[UUID]) -> None:
        """Have alerts wait no longer."""
        if alerts:
            self._execute("delete_held", alert_ids=list(alerts))

    def get_problems(self) -> list[str]:
        """Why the workspace file is not in force; empty: it is."""
        return list(self._value("get_problems") or ())

    def put_problems(self, problems: Sequence[str]) -> None:
        """Store that the workspace file was read, and why it is not in force."""
        stored = Jsonb(replace_nul(list(problems))) if problems else None
        self._execute("put_problems", problems=stored)

    def list_rules(self) -> list[NotifiedRuleRow]:
        """What notifications need of the desired rules."""
        return self._records(NotifiedRuleRow, "list_rules")

    def list_unread_streams(self) -> list[str]:
        """The streams that have unread input."""
        return self._column("list_unread_streams")

    def count_answered(self, eids: Collection[UUID]) -> dict[UUID, int]:
        """How many recalls of each event have an answer or have ended; events without are missing."""
        return self._pairs("count_answered", eids=list(eids))

    def list_answers(self, events: Collection[UUID]) -> list[AnswerOfEventRow]:
        """The last answers of the recalls of events."""
        return self._records(AnswerOfEventRow, "list_answers", eids=list(events))

    def list_fixes(self, events: Collection[UUID]) -> list[FixRow]:
        """The alerts of past events, with what was recorded to have fixed them."""
        return self._records(FixRow, "list_fixes", eids=list(events))

    def get_reload_requests(self) -> int:
        """The number of requests to reload files so far."""
        return int(self._value("get_reload_requests"))
