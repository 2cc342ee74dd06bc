"""The measure `learned` over alerts with ready contexts, in time order or leaving one out. No I/O."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from heapq import heappop, heappush
from typing import NamedTuple
from zlib import crc32

import numpy as np

from archiver.times import Micros, duration_to_micros
from recall.learning import (
    EpisodeCorpus,
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
# When leaving one out: digits of scores that count, and the range of what IDs add to them.
_SCORE_DIGITS = 9
_TIE_BREAKER = 1e-10


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
        # Both corpora number terms alike: they have the same events, in the same order.
        query = history.learner.build_query(history.next_row - 1, candidate_set.counts)
        past = history.learner.past_rows(candidate_set.candidate_count)
        return history.learner.model.score(query, past)

    def forecast(self, candidate_set: CandidateSet, count: int) -> ResolutionForecast:
        """The most probable tags of the alert."""
        model = self.model(candidate_set)
        return model.make_forecast(*self.tag_probabilities(candidate_set), count)

    def tag_probabilities(self, candidate_set: CandidateSet) -> tuple[Floats, float]:
        """The probability of each tag of the model, and that of none of these."""
        history = self._advance(candidate_set)
        forecast = history.learner.forecast(history.next_row - 1)
        if forecast is None:
            return np.zeros(0), 1.0
        return forecast.probabilities, forecast.new_tag

    def model(self, candidate_set: CandidateSet) -> LearnedModel:
        """The model for an alert, from what was known at its time."""
        return self._advance(candidate_set).learner.model

    def find_tag(self, candidate_set: CandidateSet) -> int | None:
        """The number of the tag that an alert will have; None: the model has not seen it."""
        tag = self._resolutions[candidate_set.alert.event_id].tag
        return self.model(candidate_set).tag_model.find_tag(tag)

    def row_tag(self, candidate_set: CandidateSet, row: int) -> int | None:
        """The number of a candidate's tag; None: it is not known."""
        tag = int(self._advance(candidate_set).learner.past_rows(row + 1).facts.tags[row])
        return None if tag < 0 else tag

    def candidate_tags(self, candidate_set: CandidateSet) -> TagIds:
        """The number of each candidate's tag; -1: it is not known."""
        learner = self._advance(candidate_set).learner
        return learner.past_rows(candidate_set.candidate_count).facts.tags

    def resolution_count(self, candidate_set: CandidateSet) -> int:
        """How many tags of alerts of its type are known to the model of an alert."""
        return len(self._advance(candidate_set).learner.learned_rows)

    def _advance(self, candidate_set: CandidateSet) -> "_History":
        """Observe all alerts of the type up to the query, and learn what was known then."""
        event_type = candidate_set.alert.event_type
        if event_type not in self._histories:
            self._histories[event_type] = _History(duration_to_micros(self.gap))
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

    def __init__(self, gap: Micros) -> None:
        self.corpus = EpisodeCorpus(gap)
        self.learner = Learner(self.corpus, gap)
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
    """Ranks by the tags of all other alerts, without those of the alert's own group.

    Neither times nor positions matter: alerts are learned in an order that depends on IDs alone,
    and IDs decide between equal scores.
    """

    def __init__(self, resolutions: Iterable[Resolution]) -> None:
        """`known_at` of the resolutions is ignored."""
        self._tags = {resolution.event_id: resolution.tag for resolution in resolutions}
        self._types: dict[str, _AlertsOfType] = {}

    def __call__(self, candidate_set: CandidateSet) -> Floats:
        """The scores of the candidates."""
        alerts = self._alerts(candidate_set)
        learner = alerts.learner(candidate_set.alert)
        row = alerts.rows[candidate_set.alert.event_id]
        past = learner.past_rows(len(alerts.alerts))
        scores = learner.model.score(learner.build_query(row), past)
        scores = np.round(scores, _SCORE_DIGITS) + np.where(scores > 0, alerts.tie_breakers, 0.0)
        return scores[[alerts.rows[alert.event_id] for alert in candidate_set.candidates]]

    def forecast(self, candidate_set: CandidateSet, count: int) -> ResolutionForecast:
        """The most probable tags of the alert."""
        alerts = self._alerts(candidate_set)
        learner = alerts.learner(candidate_set.alert)
        forecast = learner.forecast(alerts.rows[candidate_set.alert.event_id])
        if forecast is None:
            return ResolutionForecast([], 1.0)
        return learner.model.make_forecast(forecast.probabilities, forecast.new_tag, count)

    def candidate_tags(self, candidate_set: CandidateSet) -> TagIds:
        """The number of each candidate's tag; -1: it is not known."""
        alerts = self._alerts(candidate_set)
        tags = alerts.learner(candidate_set.alert).past_rows(len(alerts.alerts)).facts.tags
        return tags[[alerts.rows[alert.event_id] for alert in candidate_set.candidates]]

    def resolution_count(self, candidate_set: CandidateSet) -> int:
        """How many tags of alerts of its type are known to the model of an alert."""
        return len(self._alerts(candidate_set).learner(candidate_set.alert).learned_rows)

    def _alerts(self, candidate_set: CandidateSet) -> "_AlertsOfType":
        event_type = candidate_set.alert.event_type
        if event_type not in self._types:
            self._types[event_type] = _AlertsOfType(candidate_set.candidates, self._tags)
        return self._types[event_type]


class _AlertsOfType:
    """The alerts of one type by ID, and what was learned from all but those of each part."""

    def __init__(self, alerts: Iterable[AlertContext], tags: Mapping[str, str]) -> None:
        self.alerts = sorted(alerts, key=lambda alert: alert.event_id)
        self.rows = {alert.event_id: row for row, alert in enumerate(self.alerts)}
        hashes = [crc32(alert.event_id.encode()) for alert in self.alerts]
        self.tie_breakers: Floats = np.array(hashes) / 2**32 * _TIE_BREAKER
        self._tags = tags
        self._corpus = Corpus()
        for alert in self.alerts:
            self._corpus.add(0, dict(sorted(alert.term_counts.items())))
        self._parts = _divide(self.alerts)
        self._learners: dict[int, Learner] = {}

    def learner(self, alert: AlertContext) -> Learner:
        """What was learned without the part of an alert."""
        part = self._parts[_group(alert)]
        if part not in self._learners:
            self._learners[part] = self._learn_without(part)
        return self._learners[part]

    def _learn_without(self, part: int) -> Learner:
        learner = Learner(self._corpus, 0, use_time=False)
        numbers_by_place = PlaceNumbers()
        place_numbers = [numbers_by_place.number(alert.location) for alert in self.alerts]
        rows_by_group: dict[str, list[int]] = {}
        for row, alert in enumerate(self.alerts):
            learner.observe(row, place_numbers[row], None)
            if alert.event_id in self._tags and self._parts[_group(alert)] != part:
                rows_by_group.setdefault(_group(alert), []).append(row)
        groups = list(rows_by_group)
        for number in range(_PASSES):
            learner.forget_events()
            order = np.random.default_rng(number).permutation(len(groups))
            for position in order.tolist():
                self._learn_group(learner, rows_by_group[groups[position]], place_numbers)
        learner.model.pair_model.fit()
        return learner

    def _learn_group(
        self, learner: Learner, rows: Sequence[int], place_numbers: Sequence[int]
    ) -> None:
        """All alerts of a group are predicted before any of them is learned. Those of one tag are
        an episode.
        """
        for row in rows:
            learner.observe(row, place_numbers[row], self._tags[self.alerts[row].event_id])
        learned_tags: set[str] = set()
        for row in rows:
            tag = self._tags[self.alerts[row].event_id]
            learner.learn(row, tag, begins_episode=tag not in learned_tags)
            learned_tags.add(tag)


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
