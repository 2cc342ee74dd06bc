"""What of a rule's past is to be found, and what of it is decided by what. Pure.

Live judges a version of a rule from an event time on (`live_from`). What lies before is its past; a *view* is the past
in one chunk: events, alerts and contexts that live would have found. A span [low, high) is decided by events around it
(`Overlap`): whether an event is the first of an alert by those not longer before than `keep_firing_for`, whether that
alert has fired by those not longer after than `for` and `keep_firing_for`. So the borders of chunks decide nothing.

For as long as `undecided` after its start live cannot tell whether an alert has begun before. Corpus membership of
that seam (up to `corpus_from`) is decided by the view, too, as soon as all of it is there.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from archiver.chunk import Chunk
from archiver.times import span
from moirae.alerts.event import Event
from moirae.alerts.lifecycle import Life, Occurrence, Timing, fold
from moirae.rules.definition import Definition

# How often a view may fail, or end the process, before it is given up.
TRIES = 3


@dataclass(frozen=True)
class Overlap:
    """How far before and after a span events decide what is in it; microseconds."""

    before: int
    after: int


@dataclass(frozen=True)
class View:
    """How far the past of a rule in a chunk is found: events before `upto` (microseconds; None: none)."""

    upto: int | None
    tries: int


@dataclass(frozen=True)
class Work:
    """The past of a version of a rule in [low, high) of a chunk, to be found; microseconds, low None: from the first.

    `live_from`: events from there on are live's. `asked`: a recall waits for it.
    """

    rule: str
    version: str
    chunk: int
    low: int | None
    high: int
    live_from: int
    asked: bool


def undecided(definition: Definition) -> int:
    """How long after its start (microseconds) a rule does not know whether its alerts have begun before."""
    spec = definition.rule.spec
    return span(spec.for_) + span(spec.keep_firing_for)


def overlap(definition: Definition) -> Overlap:
    """Of a rule. With `recall_on: every` an event also counts because its alert has fired long before."""
    spec = definition.rule.spec
    wait, keep = span(spec.for_), span(spec.keep_firing_for)
    return Overlap(keep + (wait if spec.recall_on == "every" else 0), wait + keep if wait else 0)


def goal(chunk: Chunk, corpus_from: int | None) -> int | None:
    """Up to where a view of the chunk must reach to be whole; None: all of the chunk is live's."""
    if corpus_from is None or (chunk.from_ts is not None and chunk.from_ts >= corpus_from):
        return None
    return corpus_from if chunk.to_ts is None else min(chunk.to_ts, corpus_from)


def span_to_find(chunk: Chunk, corpus_from: int | None, known: int | None, view: View) -> tuple[int | None, int] | None:
    """What is to be found of a chunk now; `known`: the past can be found up to there.

    What is not whole yet is found once at once, and the rest when the whole is there.
    """
    wanted = goal(chunk, corpus_from)
    if wanted is None or known is None or view.tries >= TRIES:
        return None
    low, high = view.upto if view.upto is not None else chunk.from_ts, min(wanted, known)
    if (low is not None and low >= high) or (view.upto is not None and high < wanted):
        return None
    return low, high


@dataclass(frozen=True)
class PastAlert:
    """An alert as it went, by the events known: its life, and its first event."""

    first: Event
    life: Life


@dataclass(frozen=True)
class Decided:
    """The past in a span: its events, which of them are in the corpus (in their order), and the alerts that began."""

    events: Sequence[Event]
    corpus: Sequence[Event]
    alerts: Sequence[PastAlert]


def decide(found: Iterable[Event], work: Work, timing: Timing, every: bool) -> Decided:
    """From events in a span and its overlap. `every`: all events of an alert are in the corpus, not its first only."""

    def inside(ts: int) -> bool:
        return (work.low is None or ts >= work.low) and ts < work.high

    chains: dict[str, list[Event]] = {}
    for event in sorted(found, key=_order):
        chains.setdefault(event.fingerprint, []).append(event)
    corpus: list[Event] = []
    alerts: list[PastAlert] = []
    for events in chains.values():
        for life, members in _lives(events, timing):
            if life.fired is not None:
                corpus += [e for e in (members if every else members[:1]) if inside(e.ts)]
                past = [e for e in members if e.ts < work.live_from]
                if inside(life.starts) and past:
                    alerts.append(PastAlert(members[0], _as_of(life, past, timing)))
    events = [e for chain in chains.values() for e in chain if inside(e.ts) and e.ts < work.live_from]
    return Decided(sorted(events, key=_order), sorted(corpus, key=_order), alerts)


def _lives(events: Sequence[Event], timing: Timing) -> list[tuple[Life, list[Event]]]:
    lives = fold(None, [Occurrence(event.ts, event.eid) for event in events], timing, None)
    rest = iter(events)
    return [(life, [next(rest) for _ in range(life.events)]) for life in lives]


def _as_of(life: Life, past: Sequence[Event], timing: Timing) -> Life:
    """A life by its past events alone, over."""
    last = past[-1].ts
    return Life(life.eid, life.starts, last, len(past), life.fired, last + timing.keep)


def _order(event: Event) -> tuple[int, str]:
    return event.ts, str(event.eid)
