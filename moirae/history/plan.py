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

from archiver.chunks import Chunk
from archiver.times import duration_to_micros
from moirae.alerts import AlertLifetime, AlertTiming, Event, Occurrence, fold_events
from moirae.rules import Definition

# How often a view may fail, or end the process, before it is given up.
MAX_ATTEMPTS = 3


@dataclass(frozen=True)
class Overlap:
    """How far before and after a span events decide what is in it; microseconds."""

    before: int
    after: int


@dataclass(frozen=True)
class View:
    """How far the past of a rule in a chunk is found: events before `upto` (microseconds; None: none)."""

    complete_until: int | None
    attempts: int


@dataclass(frozen=True)
class ViewTask:
    """The past of a version of a rule in [low, high) of a chunk, to be found; microseconds, low None: from the first.

    `live_from`: events from there on are live's. `asked`: a recall waits for it.
    """

    rule: str
    version: str
    chunk: int
    low: int | None
    high: int
    live_from: int
    is_requested: bool


def undecided_duration(definition: Definition) -> int:
    """How long after its start (microseconds) a rule does not know whether its alerts have begun before."""
    spec = definition.rule.spec
    return duration_to_micros(spec.for_) + duration_to_micros(spec.keep_firing_for)


def event_overlap(definition: Definition) -> Overlap:
    """Of a rule. With `recall_on: every` an event also counts because its alert has fired long before."""
    spec = definition.rule.spec
    wait, keep = duration_to_micros(spec.for_), duration_to_micros(spec.keep_firing_for)
    return Overlap(keep + (wait if spec.recall_on == "every" else 0), wait + keep if wait else 0)


def view_end(chunk: Chunk, corpus_from: int | None) -> int | None:
    """Up to where a view of the chunk must reach to be whole; None: all of the chunk is live's."""
    if corpus_from is None or (chunk.from_ts is not None and chunk.from_ts >= corpus_from):
        return None
    return corpus_from if chunk.to_ts is None else min(chunk.to_ts, corpus_from)


def range_to_find(
    chunk: Chunk, corpus_from: int | None, findable_until: int | None, view: View
) -> tuple[int | None, int] | None:
    """What is to be found of a chunk now; `known`: the past can be found up to there.

    What is not whole yet is found once at once, and the rest when the whole is there.
    """
    wanted = view_end(chunk, corpus_from)
    if wanted is None or findable_until is None or view.attempts >= MAX_ATTEMPTS:
        return None
    low, high = (
        view.complete_until if view.complete_until is not None else chunk.from_ts,
        min(wanted, findable_until),
    )
    if (low is not None and low >= high) or (view.complete_until is not None and high < wanted):
        return None
    return low, high


@dataclass(frozen=True)
class PastAlert:
    """An alert as it went, by the events known: its life, and its first event."""

    first_event: Event
    life: AlertLifetime


@dataclass(frozen=True)
class DecidedPast:
    """The past in a span: its events, which of them are in the corpus (in their order), and the alerts that began."""

    events: Sequence[Event]
    corpus: Sequence[Event]
    alerts: Sequence[PastAlert]


def decide(
    candidate_events: Iterable[Event],
    task: ViewTask,
    timing: AlertTiming,
    include_every_event: bool,
) -> DecidedPast:
    """From events in a span and its overlap. `every`: all events of an alert are in the corpus, not its first only."""

    def inside(ts: int) -> bool:
        return (task.low is None or ts >= task.low) and ts < task.high

    chains: dict[str, list[Event]] = {}
    for event in sorted(candidate_events, key=_sort_key):
        chains.setdefault(event.fingerprint, []).append(event)
    corpus: list[Event] = []
    alerts: list[PastAlert] = []
    for events in chains.values():
        for life, members in _lives(events, timing):
            if life.fired is not None:
                corpus += [
                    e for e in (members if include_every_event else members[:1]) if inside(e.ts)
                ]
                past = [e for e in members if e.ts < task.live_from]
                if inside(life.starts) and past:
                    alerts.append(PastAlert(members[0], _as_of(life, past, timing)))
    events = [
        e for chain in chains.values() for e in chain if inside(e.ts) and e.ts < task.live_from
    ]
    return DecidedPast(sorted(events, key=_sort_key), sorted(corpus, key=_sort_key), alerts)


def _lives(events: Sequence[Event], timing: AlertTiming) -> list[tuple[AlertLifetime, list[Event]]]:
    lives = fold_events(None, [Occurrence(event.ts, event.eid) for event in events], timing, None)
    rest = iter(events)
    return [(life, [next(rest) for _ in range(life.events)]) for life in lives]


def _as_of(life: AlertLifetime, past: Sequence[Event], timing: AlertTiming) -> AlertLifetime:
    """A life by its past events alone, over."""
    last = past[-1].ts
    return AlertLifetime(
        life.eid, life.starts, last, len(past), life.fired, last + timing.keep_firing_for
    )


def _sort_key(event: Event) -> tuple[int, str]:
    return event.ts, str(event.eid)
