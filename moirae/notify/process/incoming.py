"""Brings changed alerts into groups, or has them wait."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

from moirae.notify.process.store import NotifyStore
from moirae.notify.routing.alert import NotifiedAlert, make_labels
from moirae.notify.routing.grouping import Grouping
from moirae.notify.routing.intake import (
    Hold,
    RuleWaits,
    describe_row,
    find_hold,
    fired_long_ago,
    has_caught_up,
    has_outlasted,
    is_hold_over,
    is_undecided,
    may_be_known,
    waits_of,
)
from moirae.notify.routing.message import Message
from moirae.notify.routing.tree import find_routes
from sql.notifications import NotifiedAlertRow
from sql.reports import ChangePosition

_BATCH = 1_000  # changes that are read at once
_MAX_BATCHES = 20  # that are taken before messages are sent


@dataclass(frozen=True)
class _HeldAlert:
    """An alert whose first message waits, and since when."""

    hold: Hold
    since: datetime
    rule: str


class Incoming:
    """Follows the changes of alerts."""

    def __init__(
        self,
        store: NotifyStore,
        grouping: Grouping,
        notify_within: timedelta,
        restored_at: datetime | None = None,
    ) -> None:
        """`restored_at`: of the workspace from a backup; None: it never was."""
        self.grouping = grouping
        self._restored_at = restored_at
        self.notify_within = notify_within
        self._store = store
        self._position = store.load_position()
        self._has_moved = False
        self._held: dict[UUID, _HeldAlert] = {}
        self._added: dict[UUID, str] = {}
        self._removed: set[UUID] = set()
        self._unsent: list[NotifiedAlert] = []
        """Alerts that fired and have ended before they could be sent."""
        self._brief: list[NotifiedAlert] = []
        """Alerts that have ended while answers were awaited: groups have them as firing."""

    def restore(self, now: datetime) -> None:
        """Continue where an earlier process has stopped, with all alerts that fired by then.

        They may inhibit others, and routes that have changed since may send them.
        """
        for alert in list(self.grouping.alerts.values()):
            if may_be_known(
                alert, self._restored_at, partial(self.grouping.is_reported, alert.member)
            ):
                self.grouping.put(replace(alert, is_restored=True), now)
        held_rows = {row.alert_id: row for row in self._store.load_held()}
        waits = self._store.load_waits()
        for row in self._store.list_alerts(list(held_rows)):
            hold = Hold("late", None)
            if held_rows[row.id].reason == "history":
                hold = self._find_hold(row, describe_row(row, now), waits) or Hold("history", now)
            self._held[row.id] = _HeldAlert(hold, held_rows[row.id].since, row.rule)
        if self._position is None:
            self._position = self._store.newest_position()
            self._has_moved = True
        active = self._store.list_active()
        # What was raised since is read by `follow`, which counts what has ended meanwhile.
        raised_later = self._store.list_raised_after(self._position, active)
        excluded = {*raised_later, *(alert.id for alert in self.grouping.alerts.values())}
        active = [alert_id for alert_id in active if alert_id not in excluded]
        for start in range(0, len(active), _BATCH):
            rows = self._store.list_alerts(active[start : start + _BATCH])
            self._take_all(self._describe_all(rows, now), now)

    def follow(self, now: datetime) -> None:
        """Take changed alerts.

        All that have changed are read before one is taken: the sources of inhibition are known, and
        what has ended since then is taken only after messages that are due now.
        """
        alert_ids, position = self._list_changed()
        if position == self._position:
            return
        alerts = self._describe_all(self._store.list_alerts(alert_ids), now)
        self._note_missed(alerts, now)
        self._take_all(alerts, now)
        self._position, self._has_moved = position, True

    def _list_changed(self) -> tuple[list[UUID], ChangePosition]:
        """The alerts that have changed, in the order of their last changes, up to a position."""
        assert self._position is not None
        position = self._position
        changed: dict[UUID, None] = {}
        for _ in range(_MAX_BATCHES):
            alert_ids, next_position = self._store.list_changed(position, _BATCH)
            if next_position == position:
                break
            position = next_position
            for alert_id in alert_ids:
                changed.pop(alert_id, None)
                changed[alert_id] = None
        return list(changed), position

    def _note_missed(
        self, alerts: Iterable[tuple[NotifiedAlertRow, NotifiedAlert]], now: datetime
    ) -> None:
        """Note alerts whose first message was due before they ended, and that nothing knew of.

        They fired and ended while no process of notifications ran. Those that had fired long ago
        are counted once all input is read.
        """
        ended: dict[UUID, tuple[NotifiedAlertRow, NotifiedAlert]] = {}
        for row, alert in alerts:
            if not alert.is_resolved:
                continue
            if alert.member in self.grouping.alerts or row.id in self._held:
                continue
            if has_outlasted(row, alert, self._shortest_wait(alert)):
                ended[row.id] = row, alert
        if not ended:
            return
        assert self._position is not None
        unread = set(self._store.list_raised_after(self._position, list(ended)))
        for row, alert in ended.values():
            if row.id in unread and fired_long_ago(row, self.notify_within):
                self._hold(row, Hold("late", None), now)
            elif row.id in unread:
                self._unsent.append(alert)

    def flush_due(self, now: datetime) -> list[Message]:
        """The messages of groups that are due; alerts that are named as firing may end after it."""
        messages = self.grouping.flush_due(now)
        for alert in self._brief:
            self.grouping.put(alert, now)
        self._brief = []
        return messages

    def take_unsent(self, now: datetime) -> Sequence[NotifiedAlert]:
        """Alerts that fired and have ended before they could be sent, since the last call."""
        unsent, self._unsent = self._unsent, []
        return self.grouping.muting.select_audible(unsent, now)

    def release(self, now: datetime) -> None:
        """Take alerts that need not wait any more."""
        history = [
            alert for alert, waiting in self._held.items() if waiting.hold.reason == "history"
        ]
        self._release_history(self._store.list_alerts(history), now)
        late = {
            alert: waiting for alert, waiting in self._held.items() if waiting.hold.until is None
        }
        if late:
            self._release_late(late, now)

    def _release_late(self, late: Mapping[UUID, _HeldAlert], now: datetime) -> None:
        """Take alerts whose streams are read: together, so that a message names all of a group."""
        unread = self._store.find_unread({waiting.rule for waiting in late.values()})
        since_by_alert = {
            alert: waiting.since for alert, waiting in late.items() if waiting.rule not in unread
        }
        if not since_by_alert or not has_caught_up(max(since_by_alert.values()), now):
            return
        for row in self._store.list_alerts(list(since_by_alert)):
            self._drop_hold(row.id)
            alert = self._describe(row, now, is_late=True)
            if alert.end_reason == "withdrawn":
                continue
            if alert.is_resolved:
                self._unsent.append(alert)
            else:
                self.grouping.put(alert, now)

    def _release_history(self, rows: Sequence[NotifiedAlertRow], now: datetime) -> None:
        if not rows:
            return
        answered = self._store.count_answered([row.eid for row in rows])
        waits = self._store.load_waits()
        for row in rows:
            hold = self._held[row.id].hold
            alert_waits = self._waits_of(row, waits)
            if is_hold_over(row, hold, alert_waits, answered.get(row.eid, 0), now):
                self._drop_hold(row.id)
                alert = self._describe(row, now)
                if alert.is_resolved:
                    self._take_ended(row, alert, now)
                else:
                    self.grouping.put(alert, now)

    def _take_ended(self, row: NotifiedAlertRow, alert: NotifiedAlert, now: datetime) -> None:
        """Take an alert that has ended while its first message waited for history.

        If that message was due, it is sent, without what was awaited. An alert whose condition is
        not known yet is counted only.
        """
        if not has_outlasted(row, alert, self._shortest_wait(alert)):
            self.grouping.put(alert, now)
        elif is_undecided(row, waits_of(self._store.load_waits(), row.rule)):
            self._unsent.append(alert)
        else:
            fired = replace(alert, ends_at=None, end_reason=None)
            self.grouping.put(fired, now, min(alert.raised_at, now))
            self._brief.append(alert)

    def next_release(self) -> datetime | None:
        """When a wait ends by the clock; None: none does."""
        times = (waiting.hold.until for waiting in self._held.values())
        return min((time for time in times if time is not None), default=None)

    @property
    def has_held(self) -> bool:
        return bool(self._held)

    def save(self) -> None:
        """Store alerts that wait, and groups with the position; part of a transaction."""
        self._store.save_held(self._added, self._removed)
        self._store.save(self.grouping.take_changes(), self._position if self._has_moved else None)
        self._added, self._removed, self._has_moved = {}, set(), False

    @property
    def has_changes(self) -> bool:
        """Whether `save` has something to store."""
        return bool(self._added or self._removed or self._has_moved or self.grouping.has_changes)

    def _take_all(
        self, alerts: Iterable[tuple[NotifiedAlertRow, NotifiedAlert]], now: datetime
    ) -> None:
        waits = self._store.load_waits()
        for row, alert in alerts:
            is_hidden = row.past or is_undecided(row, waits_of(waits, row.rule))
            if alert.is_resolved or not is_hidden:
                self.grouping.muting.put(alert)  # it inhibits others while it waits itself
            self._take(row, alert, waits, now)

    def _take(
        self,
        row: NotifiedAlertRow,
        alert: NotifiedAlert,
        waits: Mapping[str, RuleWaits],
        now: datetime,
    ) -> None:
        previous = self.grouping.alerts.get(alert.member)
        if previous is not None and previous.id == alert.id:
            is_restored = alert.is_restored or previous.is_restored
            alert = replace(alert, is_late=previous.is_late, is_restored=is_restored)
            self.grouping.put(alert, now)
            return
        if alert.is_resolved:
            if row.id in self._held and self._held[row.id].hold.reason == "history":
                self._drop_hold(row.id)
                self._take_ended(row, alert, now)
            else:
                self.grouping.put(alert, now)
            return
        if row.past or row.id in self._held:
            return
        hold = self._find_hold(row, alert, waits)
        if hold is None or (hold.until is not None and hold.until <= now):
            # Group times do not depend on how soon a change is read.
            self.grouping.put(alert, now, min(row.raised_at, now))
            return
        self._hold(row, hold, now)

    def _describe_all(
        self, rows: Iterable[NotifiedAlertRow], now: datetime
    ) -> list[tuple[NotifiedAlertRow, NotifiedAlert]]:
        return [(row, self._describe(row, now)) for row in rows]

    def _describe(
        self, row: NotifiedAlertRow, now: datetime, is_late: bool = False
    ) -> NotifiedAlert:
        """An alert, marked if its receivers may know it from before a restore."""
        alert = describe_row(row, now, is_late)
        is_restored = may_be_known(
            alert, self._restored_at, lambda: self.grouping.is_reported(alert.member)
        )
        return replace(alert, is_restored=True) if is_restored else alert

    def _find_hold(
        self, row: NotifiedAlertRow, alert: NotifiedAlert, waits: Mapping[str, RuleWaits]
    ) -> Hold | None:
        alert_waits = self._waits_of(row, waits)
        shortest_wait = self._shortest_wait(alert) if alert_waits.history else timedelta.max
        return find_hold(row, alert_waits, self.notify_within, shortest_wait)

    def _waits_of(self, row: NotifiedAlertRow, waits: Mapping[str, RuleWaits]) -> RuleWaits:
        """How long the first message about an alert waits: for its rule, and for its routes."""
        nodes = find_routes(self.grouping.policy.root, make_labels(row.labels, row.key))
        groups_by_incident = any(node.groups_by_incident for node in nodes)
        return replace(waits_of(waits, row.rule), incident=groups_by_incident)

    def _hold(self, row: NotifiedAlertRow, hold: Hold, now: datetime) -> None:
        self._held[row.id] = _HeldAlert(hold, now, row.rule)
        self._added[row.id] = hold.reason
        self._removed.discard(row.id)

    def _shortest_wait(self, alert: NotifiedAlert) -> timedelta:
        nodes: Iterable[timedelta] = (
            node.options.group_wait for node in find_routes(self.grouping.policy.root, alert.labels)
        )
        return min(nodes, default=timedelta.max)

    def _drop_hold(self, alert_id: UUID) -> None:
        del self._held[alert_id]
        if self._added.pop(alert_id, None) is None:
            self._removed.add(alert_id)
