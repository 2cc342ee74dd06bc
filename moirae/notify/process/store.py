"""The state of notifications in PostgreSQL. The caller owns the transaction."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from uuid import UUID

import sql
from moirae.alerts import ChangeLog
from moirae.config import Settings, parse_duration
from moirae.config.matchers import parse_matchers
from moirae.notify.process.stream_readers import StreamReaders
from moirae.notify.routing.alert import NotifiedAlert
from moirae.notify.routing.grouping import LogEntry, StateChanges, StoredGroup
from moirae.notify.routing.intake import RuleWaits, describe_row, make_waits
from moirae.notify.routing.muting import Silence
from moirae.notify.routing.schedule import Recurrence
from sql.notifications import (
    HeldAlertRow,
    NotifiedAlertRow,
    NotifyGroupRow,
    NotifyLogRow,
    NotifyStateGateway,
    SilenceGateway,
    SilenceRow,
)
from sql.reports import ChangePosition
from sql.rules import RuleGateway
from sql.workspace import WorkspaceGateway, WorkspaceRow

_MAX_SILENCES = 10_000


def make_silence(row: SilenceRow) -> Silence:
    """A stored silence. Raises `ValueError` if its matchers or schedule are invalid."""
    recurrence = None
    if row.schedule is not None:
        duration = parse_duration(row.schedule["duration"])
        recurrence = Recurrence(row.schedule["cron"], duration, row.schedule.get("zone", "UTC"))
    matchers = [matcher for text in row.matchers for matcher in parse_matchers(text)]
    return Silence(
        id=row.id,
        matchers=matchers,
        starts_at=row.starts_at,
        ends_at=row.ends_at,
        recurrence=recurrence,
    )


def list_silences(connection: sql.Connection, now: datetime) -> list[Silence]:
    """The silences that have not ended."""
    rows = SilenceGateway(connection).list_all(ends_after=now, limit=_MAX_SILENCES)
    return [make_silence(row) for row in rows]


def read_active_alerts(state: NotifyStateGateway, now: datetime) -> list[NotifiedAlert]:
    """The alerts that fire now."""
    return [describe_row(row, now) for row in state.list_alerts(state.list_active())]


class NotifyStore:
    """What the process of notifications reads and writes, on one connection."""

    def __init__(self, connection: sql.Connection, settings: Settings) -> None:
        self._connection = connection
        self._readers = StreamReaders(RuleGateway(connection), settings)
        self._state = NotifyStateGateway(connection)
        self._silences = SilenceGateway(connection)
        self._rules = RuleGateway(connection)
        self._log = ChangeLog(connection)
        self._workspace = WorkspaceGateway(connection)
        self._rules_revision: int | None = None
        self._waits: Mapping[str, RuleWaits] = {}
        self._silences_revision: str | None = None

    def load_identity(self) -> WorkspaceRow:
        """The identity of the workspace, and whether it was restored."""
        return self._workspace.get()

    def load_position(self) -> ChangePosition | None:
        """Up to which change alerts are notified; None: nothing is yet, or changes are missing."""
        stored = self._state.get_position()
        if stored is None:
            return None
        position = ChangePosition(*stored)
        # Of another cluster, from which this one was restored, or older than the log.
        return position if self._log.has_all_after(position) else None

    def newest_position(self) -> ChangePosition:
        """The position of the newest change."""
        return self._log.newest()

    def list_active(self) -> list[UUID]:
        """The alerts that fire now."""
        return self._state.list_active()

    def list_changed(self, after: ChangePosition, limit: int) -> tuple[list[UUID], ChangePosition]:
        """The alerts that changed after a position, in the order of their last changes."""
        changes = self._state.list_alert_changes(after.xid, after.id, limit=limit)
        if not changes:
            return [], after
        alerts = list(dict.fromkeys(change.key for change in reversed(changes)))[::-1]
        return alerts, ChangePosition(changes[-1].xid, changes[-1].id)

    def list_raised_after(
        self, position: ChangePosition, alert_ids: Collection[UUID]
    ) -> list[UUID]:
        """Of some alerts, those that were stored as firing first after a position."""
        return self._state.list_raised_after(position.xid, position.id, alert_ids)

    def list_alerts(self, alert_ids: Collection[UUID]) -> list[NotifiedAlertRow]:
        """Alerts as they are now, in the order of the IDs; deleted ones are missing."""
        rows = {row.id: row for row in self._state.list_alerts(alert_ids)}
        return [rows[alert_id] for alert_id in alert_ids if alert_id in rows]

    def load_groups(self) -> tuple[list[StoredGroup], dict[tuple[str, str], LogEntry]]:
        """The groups, and what receivers were told last."""
        groups = [
            StoredGroup(row.route, row.key, row.labels, row.due_at, row.has_flushed, row.members)
            for row in self._state.list_groups()
        ]
        log = {
            (row.receiver, row.key): LogEntry(
                frozenset(row.firing),
                frozenset(row.resolved),
                row.at,
                {alert: datetime.fromisoformat(at) for alert, at in row.starts.items()},
            )
            for row in self._state.list_log()
        }
        return groups, log

    def save(self, changes: StateChanges, position: ChangePosition | None) -> None:
        """Store what changed; `position` None: it did not."""
        self._state.put_groups(
            NotifyGroupRow(
                route=group.route,
                key=group.key,
                labels=group.labels,
                due_at=group.due_at,
                has_flushed=group.has_flushed,
                members=group.members,
            )
            for group in changes.groups
        )
        self._state.delete_groups(changes.removed)
        self._state.put_log(
            NotifyLogRow(
                receiver=receiver,
                key=key,
                firing=sorted(entry.firing),
                resolved=sorted(entry.resolved),
                at=entry.at,
                starts={alert: at.isoformat() for alert, at in entry.starts.items()},
            )
            for (receiver, key), entry in changes.log.items()
        )
        if position is not None:
            self._state.put_position(*position)

    def load_held(self) -> list[HeldAlertRow]:
        """Alerts whose first message waits."""
        return self._state.list_held()

    def save_held(self, added: Mapping[UUID, str], removed: Collection[UUID]) -> None:
        """Store which first messages wait, and which no longer do."""
        self._state.put_held(added)
        self._state.delete_held(removed)

    def find_unread(self, rules: Collection[str]) -> Collection[str]:
        """Of some rules, those that may read a stream which has unread input."""
        unread = self._state.list_unread_streams()
        return self._readers.find_readers(rules, unread) if unread else ()

    def count_answered(self, events: Collection[UUID]) -> dict[UUID, int]:
        """How many recalls of each event have an answer or have ended."""
        return self._state.count_answered(events)

    def load_waits(self) -> Mapping[str, RuleWaits]:
        """How long first messages wait, by rule; read again when rules have changed."""
        revision = self._rules.revision()
        if revision != self._rules_revision:
            self._waits = {row.rule: make_waits(row) for row in self._state.list_rules()}
            self._rules_revision = revision
        return self._waits

    def load_changed_silences(self, now: datetime) -> Sequence[Silence] | None:
        """The silences that have not ended; None: none has changed since the last call."""
        revision = self._silences.get_revision()
        if revision == self._silences_revision:
            return None
        self._silences_revision = revision
        return list_silences(self._connection, now)

    def save_problems(self, problems: Sequence[str]) -> None:
        """Store why the workspace file is not in force; empty: it is."""
        self._state.put_problems(problems)

    def count_reload_requests(self) -> int:
        """The number of requests to reload files so far."""
        return self._state.get_reload_requests()
