"""Groups of alerts and the messages about them, as Alertmanager makes them.

Alerts, silences and the time come in, messages come out. No I/O: the state is loaded by `restore`,
and what changed since is taken by `take_changes`.
"""

import heapq
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import count
from uuid import UUID

from moirae.config import INCIDENT_LABEL
from moirae.notify.routing.alert import NotifiedAlert, format_labels
from moirae.notify.routing.message import Cause, Message
from moirae.notify.routing.muting import Muting
from moirae.notify.routing.tree import RouteNode, find_routes, walk_tree

# Alertmanager removes empty groups at this interval, counted from its start: until then, a new alert
# waits for the group's next interval instead of `group_wait`.
_CLEANUP_INTERVAL = timedelta(seconds=30)


@dataclass(frozen=True)
class ReceiverPolicy:
    """What a receiver wants to be sent."""

    send_resolved: bool = True
    repeat_acknowledged: bool = False


@dataclass(frozen=True)
class Policy:
    """Routes and receivers."""

    root: RouteNode
    receivers: Mapping[str, ReceiverPolicy]


@dataclass(frozen=True)
class LogEntry:
    """What a receiver was told last about a group: the members that fired and that had ended.

    `starts`: of the alerts that fired, by ID.
    """

    firing: frozenset[str]
    resolved: frozenset[str]
    at: datetime
    starts: Mapping[str, datetime] = field(default_factory=dict)


@dataclass(eq=False)
class AlertGroup:
    """Alerts of one route with equal group labels, by member. `due_at`: its next flush."""

    node: RouteNode
    labels: Mapping[str, str]
    key: str
    due_at: datetime
    has_flushed: bool = False
    members: dict[str, NotifiedAlert] = field(default_factory=dict)

    @property
    def id(self) -> tuple[str, str]:
        """Names the group in stored state."""
        return self.node.id, self.key


@dataclass(frozen=True)
class StoredGroup:
    """A group as it is stored. `members`: the IDs of its alerts."""

    route: str
    key: str
    labels: Mapping[str, str]
    due_at: datetime
    has_flushed: bool
    members: Sequence[UUID]


@dataclass
class StateChanges:
    """What is to be stored: groups, removed groups by route and key, what receivers were told."""

    groups: list[StoredGroup]
    removed: list[tuple[str, str]]
    log: dict[tuple[str, str], LogEntry]


class Grouping:
    """The groups of a workspace."""

    def __init__(self, policy: Policy, muting: Muting, now: datetime) -> None:
        self._policy = policy
        self.muting = muting
        self._groups: dict[tuple[str, str], AlertGroup] = {}
        self._log: dict[tuple[str, str], LogEntry] = {}
        self._alerts: dict[str, NotifiedAlert] = {}
        """Alerts that fire, and those that ended and are still in a group, by member."""
        self._queue: list[tuple[datetime, int, AlertGroup]] = []
        self._numbers = count()
        self._cleanup_at = now + _CLEANUP_INTERVAL
        self._changed_groups: dict[tuple[str, str], AlertGroup] = {}
        self._removed_groups: set[tuple[str, str]] = set()
        self._changed_entries: set[tuple[str, str]] = set()

    # State

    def restore(
        self,
        groups: Iterable[StoredGroup],
        log: Mapping[tuple[str, str], LogEntry],
        alerts: Iterable[NotifiedAlert],
    ) -> None:
        """Take over the state that an earlier process has stored, with its alerts as they are now.

        Groups of routes that do not exist any more are dropped: call `put` for alerts that fire and
        are not among `alerts` then.
        """
        alerts_by_id = {alert.id: alert for alert in alerts}
        nodes = {node.id: node for _, node in walk_tree(self._policy.root)}
        self._log = dict(log)
        for stored in groups:
            node = nodes.get(stored.route)
            if node is None:
                self._removed_groups.add((stored.route, stored.key))
                continue
            group = AlertGroup(node, stored.labels, stored.key, stored.due_at, stored.has_flushed)
            for alert_id in stored.members:
                alert = alerts_by_id.get(alert_id)
                if alert is not None:
                    alert = _keep_incident(alert, stored.labels)
                    group.members[alert.member] = alert
                    self._alerts[alert.member] = alert
                    self.muting.put(alert)
            self._groups[group.id] = group
            self._schedule(group, group.due_at)

    def take_changes(self) -> StateChanges:
        """What changed since the last call."""
        groups = [_to_stored(group) for group in self._changed_groups.values()]
        removed = list(self._removed_groups)
        log = {key: self._log[key] for key in self._changed_entries}
        self._changed_groups, self._removed_groups, self._changed_entries = {}, set(), set()
        return StateChanges(groups, removed, log)

    @property
    def has_changes(self) -> bool:
        """Whether something changed since the last call of `take_changes`."""
        return bool(self._changed_groups or self._removed_groups or self._changed_entries)

    @property
    def policy(self) -> Policy:
        return self._policy

    @property
    def groups(self) -> Collection[AlertGroup]:
        return self._groups.values()

    @property
    def alerts(self) -> Mapping[str, NotifiedAlert]:
        """Alerts that fire, and those that ended and are still in a group, by member."""
        return self._alerts

    def is_reported(self, member: str, receiver: str | None = None) -> bool:
        """Whether a receiver, or any, knows that an alert fires."""
        return any(
            member in entry.firing
            for (name, _), entry in self._log.items()
            if receiver in (None, name)
        )

    # Alerts

    def put(self, alert: NotifiedAlert, now: datetime, waits_since: datetime | None = None) -> None:
        """Add an alert that fires to its groups, or note in them that it has changed or ended.

        `waits_since`: from which `group_wait` of a new group counts; None: from now.
        """
        previous = self._alerts.get(alert.member)
        if previous is not None and previous.id == alert.id:
            # What people decide later applies to later alerts: this one was sent in that group.
            alert = replace(alert, incident=previous.incident)
        self.muting.put(alert)
        if alert.is_resolved:
            previous = self._alerts.get(alert.member)
            if previous is None or (previous.id != alert.id and not previous.is_resolved):
                return  # it was never sent, or another one has begun since
        self._alerts[alert.member] = alert
        for node in find_routes(self._policy.root, alert.labels):
            self._insert(node, alert, now, waits_since or now)
        if alert.is_resolved:
            self._forget(alert)  # no route takes it

    def _insert(
        self, node: RouteNode, alert: NotifiedAlert, now: datetime, waits_since: datetime
    ) -> None:
        labels = node.group_labels(alert.labels, alert.group_incident)
        key = f"{node.key}:{format_labels(labels)}"
        group = self._groups.get((node.id, key))
        if group is None:
            if alert.is_resolved:
                return
            group = AlertGroup(node, labels, key, waits_since + node.options.group_wait)
            self._groups[group.id] = group
            self._removed_groups.discard(group.id)
            self._schedule(group, group.due_at)
        elif group.members.get(alert.member) == alert:
            return
        group.members[alert.member] = alert
        self._changed_groups[group.id] = group
        options = node.options
        if not group.has_flushed and alert.waits_since + options.group_wait < now:
            self._schedule(group, now)
        elif options.resolved_wait is not None and all(
            member.is_resolved for member in group.members.values()
        ):
            self._schedule(group, min(group.due_at, now + options.resolved_wait))

    def replace_policy(self, policy: Policy, now: datetime) -> None:
        """Continue with other routes: groups of routes that remain keep their state."""
        nodes = {node.id: node for _, node in walk_tree(policy.root)}
        alerts = list(self._alerts.values())
        self._policy = policy
        for group in list(self._groups.values()):
            if group.node.id not in nodes:
                self._remove(group)
                continue
            group.node = nodes[group.node.id]
            group.members = {
                member: alert
                for member, alert in group.members.items()
                if group.node in find_routes(policy.root, alert.labels)
                and group.node.group_labels(alert.labels, alert.group_incident) == group.labels
            }
            self._changed_groups[group.id] = group
        for alert in alerts:
            self.put(alert, now)

    # Messages

    def next_due(self) -> datetime | None:
        """When `flush_due` is to be called next; None: not before an alert comes."""
        self._drop_stale()
        return self._queue[0][0] if self._queue else None

    def flush_due(self, now: datetime) -> list[Message]:
        """The messages of all groups that are due."""
        messages: list[Message] = []
        while self._queue and self._queue[0][0] <= now:
            due_at, _, group = heapq.heappop(self._queue)
            if group.due_at != due_at or self._groups.get(group.id) is not group:
                continue
            messages += self._flush(group, now)
        if now >= self._cleanup_at:
            while self._cleanup_at <= now:
                self._cleanup_at += _CLEANUP_INTERVAL
            for group in [group for group in self._groups.values() if not group.members]:
                self._remove(group)
        return messages

    def _flush(self, group: AlertGroup, now: datetime) -> list[Message]:
        interval = group.node.options.group_interval
        # Ticks are exact multiples of the interval: whether `repeat_interval` has passed does not
        # depend on how soon after its tick a group is flushed.
        tick = group.due_at if group.due_at + interval > now else now
        self._schedule(group, tick + interval)
        group.has_flushed = True
        self._changed_groups[group.id] = group
        alerts = list(group.members.values())
        if len(alerts) > 1:
            alerts.sort(key=lambda alert: alert.sort_key)
        messages = []
        if not group.node.is_muted(now):
            audible = self.muting.select_audible(alerts, now)
            if audible:
                messages = self._decide(group, audible, tick)
        for alert in alerts:
            if alert.is_resolved:
                del group.members[alert.member]
                self._forget(alert)
        return messages

    def _decide(
        self, group: AlertGroup, alerts: Sequence[NotifiedAlert], now: datetime
    ) -> list[Message]:
        """The message about the alerts of a group that nothing holds back, if one is due."""
        options = group.node.options
        receiver = self._policy.receivers.get(options.receiver, ReceiverPolicy())
        firing = frozenset(alert.member for alert in alerts if not alert.is_resolved)
        resolved = frozenset(alert.member for alert in alerts if alert.is_resolved)
        key = (options.receiver, group.key)
        entry = self._log.get(key)
        cause = decide_cause(entry, firing, resolved, receiver.send_resolved)
        if cause is None and entry is not None and find_moved(entry, alerts):
            cause = "update"
        sent = list(alerts)
        if cause is None:
            if entry is None or not entry.at < now - options.repeat_interval:
                return []
            cause = "repeat"
            if not receiver.repeat_acknowledged:
                sent = [alert for alert in sent if not alert.is_acknowledged or alert.is_resolved]
            if not any(not alert.is_resolved for alert in sent):
                return []
        elif cause != "first" and options.changes_only and entry is not None:
            reported = entry.firing | entry.resolved
            moved = find_moved(entry, sent)
            sent = [
                alert
                for alert in sent
                if alert.id in moved
                or (
                    alert.member not in (entry.resolved if alert.is_resolved else entry.firing)
                    and (not alert.is_resolved or alert.member in reported)
                )
            ]
        if not receiver.send_resolved:
            sent = [alert for alert in sent if not alert.is_resolved]
        at = now
        if (
            cause in ("change", "update")
            and options.changes_only
            and entry is not None
            and entry.firing & firing
        ):
            at = entry.at  # the others are repeated when their time has come
        starts = {str(alert.id): alert.starts_at for alert in alerts if not alert.is_resolved}
        self._log[key] = LogEntry(firing, resolved, at, starts)
        self._changed_entries.add(key)
        if not sent:
            return []
        return [
            Message(
                receiver=options.receiver,
                group_key=group.key,
                group_labels=group.labels,
                alerts=sent,
                cause=cause,
                planned_at=now,
            )
        ]

    # Queue

    def _schedule(self, group: AlertGroup, due_at: datetime) -> None:
        group.due_at = due_at
        self._changed_groups[group.id] = group
        heapq.heappush(self._queue, (due_at, next(self._numbers), group))

    def _drop_stale(self) -> None:
        while self._queue:
            due_at, _, group = self._queue[0]
            if group.due_at == due_at and self._groups.get(group.id) is group:
                return
            heapq.heappop(self._queue)

    def _remove(self, group: AlertGroup) -> None:
        del self._groups[group.id]
        self._changed_groups.pop(group.id, None)
        self._removed_groups.add(group.id)

    def _forget(self, alert: NotifiedAlert) -> None:
        """Forget an alert that ended, once no group has it."""
        for node in find_routes(self._policy.root, alert.labels):
            key = (
                f"{node.key}:{format_labels(node.group_labels(alert.labels, alert.group_incident))}"
            )
            group = self._groups.get((node.id, key))
            if group is not None and alert.member in group.members:
                return
        if self._alerts.get(alert.member) == alert:
            del self._alerts[alert.member]


def decide_cause(
    entry: LogEntry | None, firing: frozenset[str], resolved: frozenset[str], send_resolved: bool
) -> Cause | None:
    """Why a message is due, apart from a repetition; None: it is not."""
    if entry is None:
        return "first" if firing else None
    if not firing <= entry.firing:
        return "change" if entry.firing else "first"
    if not firing:
        # That all have ended is noted also for a receiver that is not entry of it.
        return "change" if entry.firing else None
    if send_resolved and not resolved <= entry.resolved:
        return "change"
    return None


def find_moved(entry: LogEntry, alerts: Iterable[NotifiedAlert]) -> set[UUID]:
    """The firing alerts that began at another time than the receiver was told: settling has found
    another first event.
    """
    return {
        alert.id
        for alert in alerts
        if not alert.is_resolved
        and entry.starts.get(str(alert.id), alert.starts_at) != alert.starts_at
    }


def _keep_incident(alert: NotifiedAlert, group_labels: Mapping[str, str]) -> NotifiedAlert:
    """An alert with the incident by which a group has it; as it is if the group is of no incident."""
    incident = group_labels.get(INCIDENT_LABEL)
    if incident is None or INCIDENT_LABEL in alert.labels:
        return alert
    return replace(alert, incident=UUID(incident))


def _to_stored(group: AlertGroup) -> StoredGroup:
    members = [alert.id for alert in group.members.values()]
    return StoredGroup(
        group.node.id, group.key, group.labels, group.due_at, group.has_flushed, members
    )
