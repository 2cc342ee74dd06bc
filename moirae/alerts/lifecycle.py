"""The life of alerts: consecutive events of one fingerprint become pending, firing, resolved. Pure.

A fingerprint (rule and key values) has at most one open alert. Live, back-test and replica fold the same events in
(ts, eid) order and get the same lives.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal
from uuid import UUID

State = Literal["pending", "firing", "resolved", "provisional", "withdrawn"]


@dataclass(frozen=True)
class Occurrence:
    """An event as the life of an alert sees it; `ts` in microseconds."""

    ts: int
    eid: UUID


@dataclass(frozen=True)
class Timing:
    """How long events go on before an alert fires, and how long it outlives its last one; microseconds."""

    for_: int
    keep: int


@dataclass(frozen=True)
class Life:
    """One alert so far. Event times in microseconds; `fired` and `ended` None: not yet."""

    eid: UUID
    starts: int
    last: int
    events: int = 1
    fired: int | None = None
    ended: int | None = None


def fold(going_on: Life | None, events: Sequence[Occurrence], timing: Timing, horizon: int | None) -> list[Life]:
    """The lives after `events` (in (ts, eid) order): first the one going on, if any, then new ones.

    `horizon`: all events before this time are among those seen, so that silence up to it ends a life; None: more
    may come at any time.
    """
    lives = [] if going_on is None else [going_on]
    for event in events:
        if lives and event.ts <= lives[-1].last + timing.keep:
            lives[-1] = _go_on(lives[-1], event, timing)
        else:
            if lives:
                lives[-1] = _end(lives[-1], timing)
            lives.append(_start(event, timing))
    if lives and horizon is not None and lives[-1].last + timing.keep < horizon:
        lives[-1] = _end(lives[-1], timing)
    return lives


def _start(event: Occurrence, timing: Timing) -> Life:
    return Life(event.eid, event.ts, event.ts, fired=event.ts if timing.for_ == 0 else None)


def _go_on(life: Life, event: Occurrence, timing: Timing) -> Life:
    fires = life.fired is None and event.ts - life.starts >= timing.for_
    return replace(
        life,
        last=max(life.last, event.ts),
        events=life.events + 1,
        fired=event.ts if fires else life.fired,
    )


def _end(life: Life, timing: Timing) -> Life:
    return replace(life, ended=life.last + timing.keep)


def state(shown: Life, settled: bool) -> State:
    """What people are shown: a life of which nothing is settled yet is provisional."""
    if not settled:
        return "provisional"
    if shown.fired is None:
        return "pending"
    return "firing" if shown.ended is None else "resolved"
