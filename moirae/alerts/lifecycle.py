"""The life of alerts: consecutive events of one fingerprint become pending, firing, resolved. Pure.

A fingerprint (rule and key values) has at most one open alert. Live, back-test and replica fold the same events in
(ts, eid) order and get the same lives.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal
from uuid import UUID

AlertState = Literal["pending", "firing", "resolved", "provisional", "withdrawn"]


@dataclass(frozen=True)
class Occurrence:
    """An event as the life of an alert sees it; `ts` in microseconds."""

    ts: int
    eid: UUID


@dataclass(frozen=True)
class AlertTiming:
    """How long events go on before an alert fires, and how long it outlives its last one; microseconds."""

    for_: int
    keep_firing_for: int


@dataclass(frozen=True)
class AlertLifetime:
    """One alert so far. Event times in microseconds; `fired` and `ended` None: not yet."""

    eid: UUID
    starts: int
    last: int
    events: int = 1
    fired: int | None = None
    ended: int | None = None


def fold_events(
    open_lifetime: AlertLifetime | None,
    events: Sequence[Occurrence],
    timing: AlertTiming,
    horizon: int | None,
) -> list[AlertLifetime]:
    """The lives after `events` (in (ts, eid) order): first the one going on, if any, then new ones.

    `horizon`: all events before this time are among those seen, so that silence up to it ends a life; None: more
    may come at any time.
    """
    lives = [] if open_lifetime is None else [open_lifetime]
    for event in events:
        if lives and event.ts <= lives[-1].last + timing.keep_firing_for:
            lives[-1] = _extend_lifetime(lives[-1], event, timing)
        else:
            if lives:
                lives[-1] = _end_lifetime(lives[-1], timing)
            lives.append(_start_lifetime(event, timing))
    if lives and horizon is not None and lives[-1].last + timing.keep_firing_for < horizon:
        lives[-1] = _end_lifetime(lives[-1], timing)
    return lives


def _start_lifetime(event: Occurrence, timing: AlertTiming) -> AlertLifetime:
    return AlertLifetime(
        event.eid, event.ts, event.ts, fired=event.ts if timing.for_ == 0 else None
    )


def _extend_lifetime(life: AlertLifetime, event: Occurrence, timing: AlertTiming) -> AlertLifetime:
    fires = life.fired is None and event.ts - life.starts >= timing.for_
    return replace(
        life,
        last=max(life.last, event.ts),
        events=life.events + 1,
        fired=event.ts if fires else life.fired,
    )


def _end_lifetime(life: AlertLifetime, timing: AlertTiming) -> AlertLifetime:
    return replace(life, ended=life.last + timing.keep_firing_for)


def alert_state(lifetime: AlertLifetime, settled: bool) -> AlertState:
    """What people are shown: a life of which nothing is settled yet is provisional."""
    if not settled:
        return "provisional"
    if lifetime.fired is None:
        return "pending"
    return "firing" if lifetime.ended is None else "resolved"
