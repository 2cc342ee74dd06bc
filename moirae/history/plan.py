"""Plans which part of a rule's past to compute, and decides what belongs to it. No I/O.

The live process evaluates a version of a rule from an event time on (`live_from`). Earlier events
are its past. A *view* is the past in one chunk: the events, alerts and contexts that the live
process would have produced.

A range depends on events outside it (`Overlap`): on events up to `keep_firing_for`
before it, which may have started an alert, and on events up to `for` and `keep_firing_for` after
it, which may make an alert fire. Chunk borders therefore do not change any result.

For `undecided_duration` after its start the live process cannot know whether an alert started
before. The view also decides which of these events, up to `corpus_from`, are in the corpus.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from archiver.chunks import Chunk
from archiver.time_range import TimeRange
from archiver.times import Micros
from moirae.alerts import AlertLifetime, AlertTiming, Event, FoldedAlert, fold_alerts, sort_event
from moirae.rules import Definition

MAX_ATTEMPTS = 3  # attempts to compute a view, including those that ended the process


@dataclass(frozen=True)
class Overlap:
    """Microseconds before and after a range in which events affect its result."""

    before: Micros
    after: Micros


@dataclass(frozen=True)
class View:
    """Progress of a view: events before `complete_until` are stored; None: none."""

    complete_until: Micros | None
    attempts: int


@dataclass(frozen=True)
class ViewTask:
    """A range of a chunk, with an end, for which to compute the past of a rule version.

    `live_from`: later events come from the live process. `is_requested`: a recall waits for the
    view.
    """

    rule: str
    version: str
    chunk: int
    range: TimeRange
    live_from: Micros
    is_requested: bool


def undecided_duration(definition: Definition) -> Micros:
    """Microseconds after the start of a rule in which an alert may have started before."""
    return definition.pending_for + definition.keep_firing_for


def event_overlap(definition: Definition) -> Overlap:
    """The overlap of a rule's views.

    With `recall_on: every` an event is in the corpus if its alert fired at any time, so that the
    overlap before includes `for`.
    """
    before = definition.keep_firing_for
    if definition.recalls_every_event:
        before += definition.pending_for
    after = 0
    if definition.pending_for:
        after = undecided_duration(definition)
    return Overlap(before, after)


def view_end(chunk: Chunk, corpus_from: Micros | None) -> Micros | None:
    """The end of the view of a chunk; None if the whole chunk belongs to the live process."""
    if corpus_from is None or (chunk.from_ts is not None and chunk.from_ts >= corpus_from):
        return None
    if chunk.to_ts is None:
        return corpus_from
    return min(chunk.to_ts, corpus_from)


def range_to_find(
    chunk: Chunk, corpus_from: Micros | None, findable_until: Micros | None, view: View
) -> TimeRange | None:
    """The range of a chunk to compute now, or None.

    `findable_until`: the past can be computed up to this time. An incomplete chunk is computed once
    at first, and its rest when it is complete.
    """
    end = view_end(chunk, corpus_from)
    if end is None or findable_until is None or view.attempts >= MAX_ATTEMPTS:
        return None
    start = chunk.from_ts
    if view.complete_until is not None:
        start = view.complete_until
        if findable_until < end:
            return None
    time_range = TimeRange(start, min(end, findable_until))
    return None if time_range.is_empty else time_range


@dataclass(frozen=True)
class DecidedPast:
    """The past in a range: its events, those in the corpus, and the alerts that started."""

    events: Sequence[Event]
    corpus: Sequence[Event]
    alerts: Sequence[FoldedAlert]


def decide(
    candidate_events: Iterable[Event],
    task: ViewTask,
    timing: AlertTiming,
    definition: Definition,
) -> DecidedPast:
    """Decides the past in the range of a task from the events in it and in its overlap.

    The corpus has the first event of each alert that fired; of some rules further events, or those
    of all alerts.
    """
    past_events: list[Event] = []
    corpus: list[Event] = []
    alerts: list[FoldedAlert] = []
    for lifetime, members in fold_alerts(candidate_events, timing, None):
        past_members = [event for event in members if event.ts < task.live_from]
        past_events += [event for event in past_members if task.range.contains(event.ts)]
        if lifetime.fired is not None or definition.has_corpus_of_events:
            corpus_members = members if definition.compares_every_event else members[:1]
            corpus += [event for event in corpus_members if task.range.contains(event.ts)]
        if lifetime.fired is None:
            continue
        if past_members and task.range.contains(lifetime.starts):
            past_lifetime = _end_with(lifetime, past_members, timing)
            alerts.append(FoldedAlert(past_lifetime, past_members))
    past_events.sort(key=sort_event)
    corpus.sort(key=sort_event)
    return DecidedPast(past_events, corpus, alerts)


def _end_with(
    lifetime: AlertLifetime, events: Sequence[Event], timing: AlertTiming
) -> AlertLifetime:
    """The lifetime as if it had ended with these events."""
    last = events[-1].ts
    ended = last + timing.keep_firing_for
    return replace(lifetime, last=last, events=len(events), ended=ended)
