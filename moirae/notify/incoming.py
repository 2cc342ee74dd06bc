"""Brings changed alerts into groups, or has them wait."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from moirae.notify.alert import NotifiedAlert
from moirae.notify.grouping import Grouping
from moirae.notify.intake import (
    Hold,
    describe_row,
    find_hold,
    has_caught_up,
    is_hold_over,
    waits_of,
)
from moirae.notify.routing import find_routes
from moirae.notify.store import NotifyStore
from sql.notifications import NotifiedAlertRow

_BATCH = 1_000  # changes that are read at once


class Incoming:
    """Follows the changes of alerts."""

    def __init__(self, store: NotifyStore, grouping: Grouping, notify_within: timedelta) -> None:
        self.grouping = grouping
        self.notify_within = notify_within
        self._store = store
        self._position = store.load_position()
        self._has_moved = False
        self._held: dict[UUID, tuple[Hold, datetime]] = {}
        """Alerts whose first message waits, why, and since when."""
        self._added: dict[UUID, str] = {}
        self._removed: set[UUID] = set()

    def restore(self, now: datetime) -> None:
        """Continue where an earlier process has stopped; at first, with all alerts that fire."""
        held_rows = {row.alert_id: row for row in self._store.load_held()}
        for alert in self._store.list_alerts(list(held_rows)):
            since = held_rows[alert.id].since
            if held_rows[alert.id].reason == "late":
                self._held[alert.id] = Hold("late", None), since
            else:
                self._take(alert, now)
        if self._position is None:
            self._position = self._store.newest_position()
            self._has_moved = True
            active = self._store.list_active()
            for start in range(0, len(active), _BATCH):
                for alert in self._store.list_alerts(active[start : start + _BATCH]):
                    self._take(alert, now)

    def follow(self, now: datetime) -> bool:
        """Take changed alerts; returns whether there may be more of them."""
        assert self._position is not None
        alert_ids, position = self._store.list_changed(self._position, _BATCH)
        if position == self._position:
            return False
        rows = self._store.list_alerts(alert_ids)
        self._store.load_waits()
        for row in rows:
            # All sources of inhibition are known before any group is due.
            self._take(row, now)
        self._position, self._has_moved = position, True
        return True

    def release(self, now: datetime) -> Sequence[NotifiedAlert]:
        """Take alerts that need not wait any more; returns late ones that have ended meanwhile."""
        history = [alert for alert, (hold, _) in self._held.items() if hold.reason == "history"]
        self._release_history(self._store.list_alerts(history), now)
        late = {alert: since for alert, (hold, since) in self._held.items() if hold.until is None}
        if not late or not has_caught_up(self._store.has_unread_input(), max(late.values()), now):
            return []
        ended = []
        for row in self._store.list_alerts(list(late)):
            self._drop_hold(row.id)
            alert = describe_row(row, now, is_late=True)
            if alert.is_resolved:
                ended.append(alert)
            else:
                self.grouping.put(alert, now)
        return ended

    def _release_history(self, rows: Sequence[NotifiedAlertRow], now: datetime) -> None:
        if not rows:
            return
        answered = self._store.count_answered([row.eid for row in rows])
        waits = self._store.load_waits()
        for row in rows:
            hold, _ = self._held[row.id]
            if is_hold_over(row, hold, waits_of(waits, row.rule), answered.get(row.eid, 0), now):
                self._drop_hold(row.id)
                alert = describe_row(row, now)
                if not alert.is_resolved:
                    self.grouping.put(alert, now)

    def next_release(self) -> datetime | None:
        """When a wait ends by the clock; None: none does."""
        return min((hold.until for hold, _ in self._held.values() if hold.until), default=None)

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

    def _take(self, row: NotifiedAlertRow, now: datetime) -> None:
        alert = describe_row(row, now)
        previous = self.grouping.alerts.get(alert.member)
        if previous is not None and previous.id == alert.id:
            self.grouping.put(alert if not previous.is_late else describe_row(row, now, True), now)
            return
        if alert.is_resolved:
            if row.id in self._held and self._held[row.id][0].reason == "history":
                self._drop_hold(row.id)
            self.grouping.put(alert, now)
            return
        if row.past or row.id in self._held:
            return
        waits = waits_of(self._store.load_waits(), row.rule)
        hold = find_hold(row, waits, self.notify_within, self._shortest_wait(alert))
        if hold is None or (hold.until is not None and hold.until <= now):
            # Group times do not depend on how soon a change is read.
            self.grouping.put(alert, now, min(row.raised_at, now))
            return
        self._held[row.id] = hold, now
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
