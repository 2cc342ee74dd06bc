"""Alert lifecycle: consecutive events of one fingerprint become pending, firing, resolved.

A fingerprint (rule and key values) has at most one open alert. Live evaluation, back-tests and
replicas fold the same events in (ts, eid) order and get the same lifetimes. No I/O.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal
from uuid import UUID

from archiver.times import Micros

AlertState = Literal["pending", "firing", "resolved", "provisional", "withdrawn"]


@dataclass(frozen=True)
class Occurrence:
    """Time and ID of an event."""

    ts: Micros
    eid: UUID


@dataclass(frozen=True)
class AlertTiming:
    """The rule keys `for` and `keep_firing_for`."""

    for_: Micros
    keep_firing_for: Micros


@dataclass(frozen=True)
class AlertLifetime:
    """One alert so far. Times are event time.

    `eid`, `starts`: of its first event. `last`: time of its last event. `events`: their number.
    `fired`, `ended`: None until then. Stored as JSON: the field names are a format.
    """

    eid: UUID
    starts: Micros
    last: Micros
    events: int = 1
    fired: Micros | None = None
    ended: Micros | None = None


def fold_events(
    open_lifetime: AlertLifetime | None,
    events: Sequence[Occurrence],
    timing: AlertTiming,
    horizon: Micros | None,
) -> list[AlertLifetime]:
    """The lifetimes after `events`, which are in (ts, eid) order: the open one first.

    `horizon`: no event before this time is missing, so that silence until then ends a lifetime.
    None: events of any time may follow.
    """
    lifetimes: list[AlertLifetime] = []
    if open_lifetime is not None:
        lifetimes.append(open_lifetime)
    for event in events:
        if lifetimes and event.ts <= _end(lifetimes[-1], timing):
            lifetimes[-1] = _extend_lifetime(lifetimes[-1], event, timing)
            continue
        if lifetimes:
            lifetimes[-1] = _end_lifetime(lifetimes[-1], timing)
        lifetimes.append(_start_lifetime(event, timing))
    if lifetimes and horizon is not None and _end(lifetimes[-1], timing) < horizon:
        lifetimes[-1] = _end_lifetime(lifetimes[-1], timing)
    return lifetimes


def _end(lifetime: AlertLifetime, timing: AlertTiming) -> Micros:
    """When the alert resolves if no further event follows."""
    return lifetime.last + timing.keep_firing_for


def _start_lifetime(event: Occurrence, timing: AlertTiming) -> AlertLifetime:
    fired = event.ts if timing.for_ == 0 else None
    return AlertLifetime(event.eid, event.ts, event.ts, fired=fired)


def _extend_lifetime(
    lifetime: AlertLifetime, event: Occurrence, timing: AlertTiming
) -> AlertLifetime:
    fired = lifetime.fired
    if fired is None and event.ts - lifetime.starts >= timing.for_:
        fired = event.ts
    last = max(lifetime.last, event.ts)
    return replace(lifetime, last=last, events=lifetime.events + 1, fired=fired)


def _end_lifetime(lifetime: AlertLifetime, timing: AlertTiming) -> AlertLifetime:
    ended = _end(lifetime, timing)
    # Every alert ends once: `replace` takes twice the time.
    return AlertLifetime(
        lifetime.eid, lifetime.starts, lifetime.last, lifetime.events, lifetime.fired, ended
    )


def alert_state(lifetime: AlertLifetime, settled: bool) -> AlertState:
    """The state shown to operators: provisional until some of the lifetime is settled."""
    if not settled:
        return "provisional"
    if lifetime.fired is None:
        return "pending"
    if lifetime.ended is None:
        return "firing"
    return "resolved"
