"""The messages that receivers would be sent about alerts, by event time alone. No I/O."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from moirae.config import Settings
from moirae.notify.routing.alert import NotifiedAlert, make_member
from moirae.notify.routing.grouping import Grouping
from moirae.notify.routing.message import Message
from moirae.notify.routing.muting import Muting
from moirae.notify.routing.policy import make_policy

__all__ = ["Message", "NotifiedAlert", "make_member", "simulate", "simulate_messages"]

_RESOLUTION = timedelta(microseconds=1)  # of event time


def simulate_messages(
    settings: Settings, alerts: Iterable[NotifiedAlert], start: datetime, until: datetime
) -> list[Message]:
    """The messages from `start` to `until`, inclusive, by the routes of a workspace.

    Each alert fires at its `raised_at` and ends at its `ends_at`. One that changes at the time of a
    message is in it. There are no silences.
    """
    grouping = Grouping(make_policy(settings), Muting(settings.inhibit_rules), start)
    return list(simulate(grouping, alerts, until))


def simulate(
    grouping: Grouping, alerts: Iterable[NotifiedAlert], until: datetime
) -> Iterator[Message]:
    """See `simulate_messages`."""
    for at, alert in sorted(_list_changes(alerts), key=lambda change: change[0]):
        if at > until:
            break
        yield from _flush_before(grouping, at)
        grouping.put(alert, at)
    yield from _flush_before(grouping, until + _RESOLUTION)


def _flush_before(grouping: Grouping, end: datetime) -> Iterator[Message]:
    """The messages that are due before a time, each at its own."""
    while (due_at := grouping.next_due()) is not None and due_at < end:
        yield from grouping.flush_due(due_at)


def _list_changes(alerts: Iterable[NotifiedAlert]) -> Iterator[tuple[datetime, NotifiedAlert]]:
    for alert in alerts:
        yield alert.raised_at, replace(alert, ends_at=None, end_reason=None)
        if alert.ends_at is not None:
            yield alert.ends_at, alert
