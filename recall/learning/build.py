"""Builds the model of a corpus from all events and the tags that are known now. No I/O."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from archiver.times import Micros
from recall.learning.episode_corpus import EpisodeCorpus
from recall.learning.learner import Learner
from recall.learning.pair_model import PairSample
from recall.learning.resolutions import GroupedEvent, find_usable_times
from recall.learning.stored_model import ResolvedEvents, StoredModel


@dataclass(frozen=True, slots=True)
class TrainingEvent:
    """An event of a corpus. `place`: see `name_place`. `group`: events with one resolution."""

    event_id: str
    ts: Micros
    term_counts: Mapping[str, int]
    place: str
    group: str | None = None


@dataclass(frozen=True)
class BuiltModel:
    """A model. `learned_until`: the time of the newest event that it has learned from.

    `resolutions`: from how many events. `waiting`: tags of events that are not old enough yet.
    """

    model: StoredModel
    learned_until: Micros
    resolutions: int
    waiting: int


def build_model(
    events: Sequence[TrainingEvent],
    tags: Mapping[str, str],
    gap: Micros,
    judgements: Mapping[tuple[str, str], bool] | None = None,
) -> BuiltModel | None:
    """Learn from events in (ts, ID) order and their tags, by event ID; None: nothing to learn.

    Each event is predicted from the tags of events older by `gap`, as if each tag had been known
    that long after its event. Tags of events less than `gap` older than the newest one are left
    out, so that the model may be used for a new event.

    `judgements`: by ID of an event and of a past one, whether the past one helps. The same holds for
    them: they are compared with what was known when the event occurred.
    """
    corpus = EpisodeCorpus(gap)
    learner = Learner(corpus, gap)
    place_numbers: dict[str, int] = {}
    grouped = [GroupedEvent(event.event_id, event.ts, event.group) for event in events]
    usable_times = find_usable_times(grouped, dict.fromkeys(tags, 0), gap)
    waiting = sorted(
        (usable_times[event.event_id], row)
        for row, event in enumerate(events)
        if event.event_id in usable_times
    )
    queue = deque(waiting)
    helps_by_row = _find_judged_rows(events, judgements or {})
    judged: list[tuple[int, PairSample]] = []
    end = events[-1].ts + (gap == 0) if events else 0

    def learn_until(ts: Micros) -> None:
        while queue and queue[0][0] <= ts:
            _, row = queue.popleft()
            learner.learn(row, tags[events[row].event_id])

    for row, event in enumerate(events):
        learn_until(event.ts)
        corpus.add(event.ts, event.term_counts)
        place_number = place_numbers.setdefault(event.place, len(place_numbers))
        learner.observe(row, place_number, tags.get(event.event_id))
        if row in helps_by_row and event.ts + max(gap, 1) <= end:
            sample = learner.compare_judged(row, helps_by_row[row])
            if sample is not None:
                judged.append((row, sample))
    learn_until(end)
    if not learner.learned_rows:
        return None
    learner.learn_waiting()
    # Last, so that they are among the newest samples: there are few, and they are explicit.
    for _, sample in judged:
        learner.model.pair_model.learn(sample)
    learner.model.fit()
    rows = sorted(learner.learned_rows, key=lambda row: events[row].event_id)
    past = learner.past_rows(len(events)).facts
    resolved_events = ResolvedEvents(
        np.array([events[row].event_id.encode() for row in rows], dtype=np.bytes_),
        past.times[rows],
        past.tags[rows],
        past.places[rows],
    )
    return BuiltModel(
        StoredModel(
            learner.model,
            corpus.vocabulary,
            corpus.counts(),
            resolved_events,
            list(place_numbers),
        ),
        max(events[row].ts for row in [*rows, *(row for row, _ in judged)]),
        len(rows),
        len(queue),
    )


def _find_judged_rows(
    events: Sequence[TrainingEvent], judgements: Mapping[tuple[str, str], bool]
) -> dict[int, dict[int, bool]]:
    """By row and row of an older event: whether the older one helps.

    Judgements of events that have been deleted are left out.
    """
    row_by_event = {event.event_id: row for row, event in enumerate(events)}
    helps_by_row: dict[int, dict[int, bool]] = {}
    for (event_id, past_id), helps in judgements.items():
        row, past_row = row_by_event.get(event_id), row_by_event.get(past_id)
        if row is not None and past_row is not None and past_row < row:
            helps_by_row.setdefault(row, {})[past_row] = helps
    return helps_by_row
