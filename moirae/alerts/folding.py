"""Alerts from the events of a rule: of each fingerprint, one after the other. No I/O."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from archiver.times import Micros
from moirae.alerts.event import Event
from moirae.alerts.lifecycle import AlertLifetime, AlertTiming, Occurrence, fold_events


class FoldedAlert(NamedTuple):
    """An alert, fired or not, with its events in (ts, ID) order."""

    lifetime: AlertLifetime
    events: Sequence[Event]

    @property
    def first_event(self) -> Event:
        return self.events[0]


def fold_alerts(
    events: Iterable[Event], timing: AlertTiming, horizon: Micros | None
) -> list[FoldedAlert]:
    """The alerts of all events of a rule. `horizon`: see `fold_events`."""
    events_by_fingerprint: dict[str, list[Event]] = defaultdict(list)
    for event in sorted(events, key=sort_event):
        events_by_fingerprint[event.fingerprint].append(event)
    alerts: list[FoldedAlert] = []
    for members in events_by_fingerprint.values():
        occurrences = [Occurrence(event.ts, event.eid) for event in members]
        remaining = iter(members)
        for lifetime in fold_events(None, occurrences, timing, horizon):
            alerts.append(FoldedAlert(lifetime, list(islice(remaining, lifetime.events))))
    return alerts


def sort_event(event: Event) -> tuple[Micros, str]:
    """Orders events by time, then by ID."""
    return event.ts, str(event.eid)
