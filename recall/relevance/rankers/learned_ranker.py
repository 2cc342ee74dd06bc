"""The measure `learned` over alerts with ready contexts, in time order or leaving one out. No I/O."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from heapq import heappop, heappush
from typing import NamedTuple
from zlib import crc32

import numpy as np

from archiver.times import Micros
from recall.learning import (
    GroupedEvent,
    LearnedModel,
    Learner,
    Resolution,
    ResolutionForecast,
    TagIds,
    find_usable_times,
)
from recall.relevance.rankers.ready_contexts import AlertContext, CandidateSet, Floats
from recall.similarity.measures import Corpus

# When leaving one out, the groups are divided into at most this many parts. The model for an alert
# is learned from all parts but its own.
_MAX_FOLDS = 64
# How often each alert is learned from, in different orders.
_PASSES = 3


class LearnedRanker:
    """Ranks by what was known at the time of each alert. Alerts must be ranked in time order."""

    def __init__(
        self,
        alerts: Iterable[AlertContext],
        resolutions: Iterable[Resolution],
        gap: Micros,
    ) -> None:
        """`gap`: how much older an alert must be for its tag to be used."""
        self._resolutions = {resolution.event_id: resolution for resolution in resolutions}
        events = [GroupedEvent(alert.event_id, alert.ts, alert.group) for alert in alerts]
        known_times = {
            event_id: resolution.known_at for event_id, resolution in self._resolutions.items()
        }
        self._usable_times = find_usable_times(events, known_times, gap)
        self.gap = timedelta(microseconds=gap)
        self._min_age = max(gap, 1)
        self._place_numbers = PlaceNumbers()
        self._histories: dict[str, _History] = {}

    def __call__(self, candidate_set: CandidateSet) -> Floats:
        """The scores of the candidates."""
        history = self._advance(candidate_set)
        query = history.learner.build_query(history.next_row - 1)
        past = history.learner.past_rows(candidate_set.candidate_count)
        return history.learner.model.score(query, past)

    def forecast(self, candidate_set: CandidateSet, count: int) -> ResolutionForecast:
        """The most probable tags of the alert."""
        history = self._advance(candidate_set)
        context = history.corpus.contexts[history.next_row - 1]
        attributes = history.corpus.vocabulary.attributes
        return history.learner.model.forecast(context, attributes, count)

    def tag_probabilities(self, candidate_set: CandidateSet) -> tuple[Floats, float]:
        """The probability of each tag of the model, and that of none of these."""
        history = self._advance(candidate_set)
        context = history.corpus.contexts[history.next_row - 1]
        attributes = history.corpus.vocabulary.attributes
        return history.learner.model.tag_probabilities(context, attributes)

    def model(self, candidate_set: CandidateSet) -> LearnedModel:
        """The model for an alert, from what was known at its time."""
        return self._advance(candidate_set).learner.model

    def find_tag(self, candidate_set: CandidateSet) -> int | None:
        """The number of the tag that an alert will have; None: the model has not seen it."""
        tag = self._resolutions[candidate_set.alert.event_id].tag
        return self.model(candidate_set).tag_model.find_tag(tag)

    def row_tag(self, candidate_set: CandidateSet, row: int) -> int | None:
        """The number of a candidate's tag; None: it is not known."""
        tag = int(self._advance(candidate_set).learner.past_rows(row + 1).tags[row])
        return None if tag < 0 else tag

    def candidate_tags(self, candidate_set: CandidateSet) -> TagIds:
        """The number of each candidate's tag; -1: it is not known."""
        learner = self._advance(candidate_set).learner
        return learner.past_rows(candidate_set.candidate_count).tags

    def resolution_count(self, candidate_set: CandidateSet) -> int:
        """How many tags of alerts of its type are known to the model of an alert."""
        return self._advance(candidate_set).learner.model.tag_model.event_count

    def _advance(self, candidate_set: CandidateSet) -> "_History":
        """Observe all alerts of the type up to the query, and learn what was known then."""
        event_type = candidate_set.alert.event_type
        if event_type not in self._histories:
            self._histories[event_type] = _History()
        history = self._histories[event_type]
        alerts = candidate_set.history.alerts
        for row in range(history.next_row, len(alerts)):
            history.learn_until(alerts[row].ts)
            history.observe(alerts[row], self._place_numbers.number(alerts[row].location))
            self._await_tag(history, row, alerts[row])
        return history

    def _await_tag(self, history: "_History", row: int, alert: AlertContext) -> None:
        usable_from = self._usable_times.get(alert.event_id)
        if usable_from is not None:
            tag = self._resolutions[alert.event_id].tag
            is_late = usable_from > alert.ts + self._min_age
            history.await_tag(_AwaitedTag(usable_from, row, tag, is_late))


class _AwaitedTag(NamedTuple):
    """A tag that will be known. `is_late`: later than the gap after its event."""

    usable_from: Micros
    row: int
    tag: str
    is_late: bool


class _History:
    """What was learned from the alerts of one type.

    It has a corpus of its own: candidate sets are not requested for each alert, but what is learned
    from an alert depends on E and C_k at its time.
    """

    def __init__(self) -> None:
        self.corpus = Corpus()
        self.learner = Learner(self.corpus, use_time=True)
        self.next_row = 0
        self._places: list[int] = []
        self._awaited_tags: list[_AwaitedTag] = []

    def observe(self, alert: AlertContext, place_number: int) -> None:
        self.corpus.add(alert.ts, alert.term_counts)
        self._places.append(place_number)
        self.learner.observe(self.next_row, place_number, None)
        self.next_row += 1

    def await_tag(self, awaited: _AwaitedTag) -> None:
        heappush(self._awaited_tags, awaited)
        if not awaited.is_late:
            self.learner.observe(awaited.row, self._places[awaited.row], awaited.tag)

    def learn_until(self, ts: Micros) -> None:
        while self._awaited_tags and self._awaited_tags[0].usable_from <= ts:
            awaited = heappop(self._awaited_tags)
            if awaited.is_late:
                # Nothing was known when it occurred, as when many are resolved at once: it is
                # predicted now, from what is known of the events before it.
                self.learner.observe(awaited.row, self._places[awaited.row], awaited.tag)
            self.learner.learn(awaited.row, awaited.tag)


class LeaveOneOutRanker:
    """Ranks by the tags of all other alerts, without those of the alert's own group."""

    def __init__(self, resolutions: Iterable[Resolution]) -> None:
        """`known_at` of the resolutions is ignored."""
        self._tags = {resolution.event_id: resolution.tag for resolution in resolutions}
        self._places = PlaceNumbers()
        # By event type and part.
        self._learners: dict[tuple[str, int], Learner] = {}
        self._parts: dict[str, Mapping[str, int]] = {}

    def __call__(self, candidate_set: CandidateSet) -> Floats:
        """The scores of the candidates."""
        learner = self._find_learner(candidate_set)
        row = candidate_set.excluded_rows[0]
        past = learner.past_rows(candidate_set.candidate_count)
        return learner.model.score(learner.build_query(row), past)

    def forecast(self, candidate_set: CandidateSet, count: int) -> ResolutionForecast:
        """The most probable tags of the alert."""
        model = self._find_learner(candidate_set).model
        attributes = candidate_set.history.corpus.vocabulary.attributes
        return model.forecast(candidate_set.context, attributes, count)

    def candidate_tags(self, candidate_set: CandidateSet) -> TagIds:
        """The number of each candidate's tag; -1: it is not known."""
        return self._find_learner(candidate_set).past_rows(candidate_set.candidate_count).tags

    def resolution_count(self, candidate_set: CandidateSet) -> int:
        """How many tags of alerts of its type are known to the model of an alert."""
        return self._find_learner(candidate_set).model.tag_model.event_count

    def _find_learner(self, candidate_set: CandidateSet) -> Learner:
        event_type = candidate_set.alert.event_type
        if event_type not in self._parts:
            self._parts[event_type] = _divide(candidate_set.candidates)
        part = self._parts[event_type][_group(candidate_set.alert)]
        if (event_type, part) not in self._learners:
            self._learners[event_type, part] = self._learn_without(candidate_set, part)
        return self._learners[event_type, part]

    def _learn_without(self, candidate_set: CandidateSet, part: int) -> Learner:
        alerts = candidate_set.candidates
        parts = self._parts[candidate_set.alert.event_type]
        learner = Learner(candidate_set.history.corpus, use_time=False)
        rows_by_group: dict[str, list[int]] = {}
        for row, alert in enumerate(alerts):
            learner.observe(row, self._places.number(alert.location), None)
            if alert.event_id in self._tags and parts[_group(alert)] != part:
                rows_by_group.setdefault(_group(alert), []).append(row)
        groups = list(rows_by_group)
        for number in range(_PASSES):
            learner.forget_events()
            order = np.random.default_rng(number).permutation(len(groups))
            for position in order.tolist():
                rows = rows_by_group[groups[position]]
                self._learn_group(learner, alerts, rows)
        learner.model.pair_model.fit()
        return learner

    def _learn_group(
        self, learner: Learner, alerts: Sequence[AlertContext], rows: Sequence[int]
    ) -> None:
        """All alerts of a group are predicted before any of them is learned."""
        for row in rows:
            alert = alerts[row]
            place_number = self._places.number(alert.location)
            learner.observe(row, place_number, self._tags[alert.event_id])
        for row in rows:
            learner.learn(row, self._tags[alerts[row].event_id])


class FrequencyRanker:
    """Ranks past alerts by how frequent their tags are; those without a tag are no hits."""

    def __init__(self, tags_of: Callable[[CandidateSet], TagIds]) -> None:
        """`tags_of`: the number of each candidate's tag; -1: it is not known."""
        self._tags_of = tags_of

    def __call__(self, candidate_set: CandidateSet) -> Floats:
        """The scores of the candidates."""
        tags = self._tags_of(candidate_set)
        scores = np.zeros(len(tags))
        has_tag = tags >= 0
        scores[has_tag] = np.bincount(tags[has_tag])[tags[has_tag]]
        return scores


def make_learned_ranker(
    alerts: Iterable[AlertContext],
    resolutions: Iterable[Resolution],
    gap: Micros,
    leave_one_out: bool = False,
) -> LearnedRanker | LeaveOneOutRanker:
    """A ranker by the measure `learned`."""
    if leave_one_out:
        return LeaveOneOutRanker(resolutions)
    return LearnedRanker(alerts, resolutions, gap)


class PlaceNumbers:
    """Numbers of places, from 0."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, location: str | None) -> int:
        """The number of a place; -1: the place is unknown."""
        if location is None:
            return -1
        return self._numbers.setdefault(location, len(self._numbers))


def _group(alert: AlertContext) -> str:
    return alert.event_id if alert.group is None else alert.group


def _divide(alerts: Sequence[AlertContext]) -> dict[str, int]:
    """The part of each group."""
    groups = sorted({_group(alert) for alert in alerts})
    if len(groups) <= _MAX_FOLDS:
        return {group: number for number, group in enumerate(groups)}
    return {group: crc32(group.encode()) % _MAX_FOLDS for group in groups}
