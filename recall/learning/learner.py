"""Learning from events and their resolutions, in the order in which they became known. No I/O.

An event is predicted when it occurs, from what was known then. When its tag becomes known, the
prediction is compared with it and the event is counted. So each weight and each calibration is
learned from predictions that could not know the outcome.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from archiver.times import Micros
from recall.learning.arrays import grow
from recall.learning.bursts import Bursts
from recall.learning.change_detector import ChangeDetector
from recall.learning.episodes import Episodes
from recall.learning.learned_model import (
    UNKNOWN_TAG,
    LearnedModel,
    LearnedQuery,
    PastFacts,
    PastRows,
)
from recall.learning.pair_model import PairSample
from recall.learning.tag_calibration import PastPrediction
from recall.learning.tag_mixture import TagForecast
from recall.learning.tag_model import PredictionError
from recall.similarity.measures import Corpus, CorpusCounts, Floats

# Past events in the sample of one event: at random, and of each probable tag and its own.
_RANDOM_EVENTS = 40
_EVENTS_PER_TAG = 25
_PROBABLE_TAGS = 3
# The forecast of an event is recorded if this share of its burst has its tag.
_MIN_RECORDED_SHARE = 0.5
# From this number of episodes on, fewer and fewer are forecast and make a sample.
_FULL_FORECASTING = 300
# From this number of events on, fewer and fewer are predicted, so that the weights are learned from
# about 13,000 predictions at most. All events are counted.
_FULL_PREDICTION = 5_000


@dataclass(frozen=True)
class _Lesson:
    """What is learned from the first event of an episode, beside its counts.

    `sample`: None if the tag is new, or the drawn events do not differ in whether they have it.
    """

    prediction: PastPrediction
    forecast: TagForecast
    sample: PairSample | None


@dataclass(frozen=True)
class _Outcome:
    """What was predicted when an event occurred, compared with its tag, to be learned later."""

    predicted_at: int
    """How many episodes were learned then."""
    error: PredictionError | None = None
    """None: nothing was predicted, or the tag is new."""
    is_new: bool | None = None
    """Whether the tag was not among those known then; None: nothing was predicted."""
    is_best: bool = False
    """Whether it was the most probable one."""
    best_probability: float = 0.0
    """Of the most probable tag, if it is not new."""
    lesson: _Lesson | None = None


class Learner:
    """Learns from the rows of a corpus, by their numbers. An episode is one sample."""

    def __init__(
        self,
        corpus: Corpus,
        gap: Micros,
        *,
        use_time: bool = True,
        seed: int = 0,
        refits: bool = True,
    ) -> None:
        """`gap`: of episodes, see `recall.learning.episodes`.

        `use_time`: whether recent events and occurrences count separately. Otherwise the episode of
        an event is what `learn` is told.

        `refits`: whether the model is used while it learns. Otherwise it is fitted once, by `fit`.
        """
        self.model = LearnedModel.empty(use_time, refits)
        self._corpus = corpus
        self._seed = seed
        # By row.
        self._tags = np.full(0, UNKNOWN_TAG, dtype=np.int32)
        self._places = np.full(0, -1, dtype=np.int64)
        self._times = np.zeros(0, dtype=np.int64)
        self._outcomes: dict[int, _Outcome] = {}
        # Those that samples are drawn from: no two of an episode with the same terms.
        self._rows_by_tag: list[list[int]] = []
        self._sample_rows: list[int] = []
        self._learned_rows: list[int] = []
        self._gap = gap
        self._episodes = Episodes(gap)
        # By final tags, in the order in which events occur.
        self._observed_episodes = Episodes(gap)
        self._change_detector = ChangeDetector()
        self._bursts: Bursts[_Lesson] = Bursts(corpus, gap)

    @property
    def learned_rows(self) -> list[int]:
        """The rows whose tags are known and still have the meaning that they had."""
        return self._learned_rows

    def observe(self, row: int, place_number: int, tag: str | None) -> None:
        """An event occurs. `tag`: as it will be known later; None: it will not be.

        It is compared with the prediction now, so that `learn` can use it once it is known.
        """
        self._tags = grow(self._tags, row + 1, UNKNOWN_TAG)
        self._places = grow(self._places, row + 1, -1)
        self._places[row] = place_number
        if tag is not None:
            self._outcomes[row] = self._predict_outcome(row, tag)

    def _predict_outcome(self, row: int, tag: str) -> _Outcome:
        model = self.model
        event_count = model.tag_model.event_count
        context = self._corpus.contexts[row]
        prediction = None
        if _is_selected(event_count, _FULL_PREDICTION, 2):
            prediction = model.predict(context, self._corpus.vocabulary.attributes)
        if prediction is None:
            return _Outcome(event_count)
        tag_id = model.tag_model.find_tag(tag)
        log_probabilities = prediction.log_probabilities
        lesson = None
        if self._is_forecast(row, tag):
            lesson = self._prepare_lesson(row, tag_id, log_probabilities)
        if tag_id is None:
            return _Outcome(event_count, is_new=True, lesson=lesson)
        return _Outcome(
            event_count,
            prediction.error(tag_id),
            is_new=False,
            is_best=int(np.argmax(log_probabilities)) == tag_id,
            best_probability=model.calibration.best_probability(log_probabilities),
            lesson=lesson,
        )

    def _is_forecast(self, row: int, tag: str) -> bool:
        """Whether to forecast the tag of an event: of the first of each episode, all up to
        `_FULL_FORECASTING` learned episodes, then fewer and fewer.
        """
        begins = True
        if self.model.use_time:
            begins = self._observed_episodes.add(tag, self._corpus.times[row], None) == 1
        return begins and _is_selected(self.model.history.episode_count, _FULL_FORECASTING, 1)

    def _prepare_lesson(self, row: int, tag_id: int | None, log_probabilities: Floats) -> _Lesson:
        model, counts = self.model, self._corpus.counts()
        context = self._corpus.contexts[row]
        features = model.novelty_features(context, log_probabilities)
        votes = model.count_votes(context, counts)
        forecast = model.forecast_tags(context, log_probabilities, votes)
        sample = None
        if tag_id is not None:
            sample = self._draw_sample(row, tag_id, forecast.shares, counts)
        return _Lesson(PastPrediction(log_probabilities, features, tag_id), forecast, sample)

    def _draw_sample(
        self, row: int, tag_id: int, probabilities: Floats, counts: CorpusCounts
    ) -> PairSample | None:
        """None if the drawn events do not differ in whether they have the tag."""
        query = self._build_query(row, probabilities, counts)
        probable_tags = np.argsort(-query.probabilities)[:_PROBABLE_TAGS].tolist()
        drawn_tags = sorted({*probable_tags, tag_id})
        # Copies of events that were learned must not change what is drawn.
        random = np.random.default_rng((self._seed, self.model.tag_model.event_count))
        rows: list[int] = []
        shares: list[float] = []
        for tag in drawn_tags:
            drawn = _draw(random, self._rows_by_tag[tag], _EVENTS_PER_TAG)
            rows += drawn
            shares += [1 / len(drawn)] * len(drawn)
        other_rows = _draw(random, self._sample_rows, _RANDOM_EVENTS)
        other_rows = [other for other in other_rows if int(self._tags[other]) not in drawn_tags]
        rows += other_rows
        shares += self._shares_of_others(other_rows, drawn_tags)
        drawn_rows = np.array(rows, dtype=np.intp)
        relevant = self._tags[drawn_rows] == tag_id
        if relevant.all() or not relevant.any():
            return None
        past = self.past_rows(int(drawn_rows.max()) + 1).select(drawn_rows)
        features = self.model.pair_features(query, past)
        return PairSample(features, relevant, np.array(shares))

    def _shares_of_others(self, rows: Sequence[int], drawn_tags: Sequence[int]) -> list[float]:
        """How much events of other tags count in a sample, so that each tag counts 1."""
        drawn_count = sum(len(self._rows_by_tag[tag]) for tag in drawn_tags)
        events_per_row = (len(self._sample_rows) - drawn_count) / max(len(rows), 1)
        return [events_per_row / len(self._rows_by_tag[self._tags[row]]) for row in rows]

    def learn(self, row: int, tag: str, *, begins_episode: bool | None = None) -> None:
        """The tag of an event that was observed is known from now on.

        `begins_episode`: whether it is the first of its episode; None: by its tag and its time.
        """
        outcome = self._outcomes.pop(row)
        self._learn_lessons(self._bursts.take_complete(self._corpus.times[row]))
        position = int(begins_episode or 0)
        if begins_episode is None:
            position = self._add_to_episode(row, tag)
        if position != 1:
            self._learn_further(row, tag, outcome.error, position)
            return
        model = self.model
        known_at = model.tag_model.event_count
        is_new = outcome.is_new
        if is_new is None:
            is_new = model.tag_model.find_tag(tag) is None
        model.history.learn(self._count(row, tag, outcome.error), is_new)
        if outcome.lesson is not None:
            self._learn_lesson(row, tag, outcome.lesson)
        if outcome.error is not None and self._has_changed(row, outcome, known_at):
            self._forget_old_meaning()

    def _learn_lesson(self, row: int, tag: str, lesson: _Lesson) -> None:
        """Learn from the first event of an episode, once its burst is over."""
        if self.model.use_time and self._gap:
            self._bursts.wait(row, tag, lesson)
        else:
            self._learn_lessons([(lesson, 1.0)])

    def _learn_lessons(self, lessons: Iterable[tuple[_Lesson, float]]) -> None:
        """`lessons`: with how much each counts."""
        model = self.model
        for lesson, share in lessons:
            if lesson.sample is not None:
                model.pair_model.learn(replace(lesson.sample, weight=share))
            model.calibration.learn(lesson.prediction, share)
            model.mixture.learn(lesson.forecast, lesson.prediction.tag, share)
            if share >= _MIN_RECORDED_SHARE:
                model.record.add(lesson.forecast.best_probability)

    def learn_waiting(self) -> None:
        """Learn from the first events of episodes whose bursts may not be over."""
        self._learn_lessons(self._bursts.take_all())

    def _learn_further(
        self, row: int, tag: str, error: PredictionError | None, position: int
    ) -> None:
        """Learn a further event of an episode. Only the tag model depends on it.

        `position`: of its context among the different ones of the episode; 0: another event has
        the same one, and nothing is learned from it.
        """
        if position:
            self._count(row, tag, None if error is None else error.scale(1 / position))
            return
        tag_id = self.model.tag_model.find_tag(tag)
        if tag_id is not None:
            self._tags[row] = tag_id
        self._learned_rows.append(row)

    def _has_changed(self, row: int, outcome: _Outcome, known_at: int) -> bool:
        """Whether the tags have changed their meaning."""
        return self.model.use_time and self._change_detector.add(
            row,
            outcome.best_probability,
            outcome.is_best,
            predicted_at=outcome.predicted_at,
            known_at=known_at,
        )

    def _add_to_episode(self, row: int, tag: str) -> int:
        """See `Episodes.add`."""
        terms = self._corpus.contexts[row].terms.tobytes()
        return self._episodes.add(tag, self._corpus.times[row], terms)

    def _count(self, row: int, tag: str, error: PredictionError | None) -> int:
        """Count an event with its tag; returns the number of the tag."""
        context = self._corpus.contexts[row]
        tag_id = self.model.tag_model.learn(context, tag, error)
        self.model.votes.add(context, tag_id)
        self._bursts.add(row, tag)
        if tag_id == len(self._rows_by_tag):
            self._rows_by_tag.append([])
        self._tags[row] = tag_id
        self._rows_by_tag[tag_id].append(row)
        self._sample_rows.append(row)
        self._learned_rows.append(row)
        return tag_id

    def _forget_old_meaning(self) -> None:
        """The tags have changed their meaning: only the events that were tested, and newer ones,
        still count.
        """
        first_row = self._change_detector.reset()
        names = self.model.tag_model.tags
        tagged_rows = [
            (row, names[self._tags[row]]) for row in self._learned_rows if row >= first_row
        ]
        waiting = list(self._outcomes)
        self.forget_events()
        # What was predicted for the events that wait is about tags of the old meaning.
        self._outcomes.update(dict.fromkeys(waiting, _Outcome(0)))
        for row, tag in tagged_rows:
            position = self._add_to_episode(row, tag)
            if position != 1:
                self._learn_further(row, tag, None, position)
            else:
                self.model.history.learn(self._count(row, tag, None), is_new=False)

    def compare_judged(self, row: int, helps_by_row: Mapping[int, bool]) -> PairSample | None:
        """An event that was just observed, with past ones of which an operator will say whether
        they help.

        None: without an event of either kind, there is nothing to compare.
        """
        rows = np.array(sorted(helps_by_row), dtype=np.intp)
        relevant = np.array([helps_by_row[past_row] for past_row in rows.tolist()], dtype=bool)
        if relevant.all() or not relevant.any():
            return None
        past = self.past_rows(int(rows[-1]) + 1).select(rows)
        features = self.model.pair_features(self.build_query(row), past)
        return PairSample(features, relevant, np.ones(len(rows)))

    def forget_events(self) -> None:
        """Forget which events have which tags. The weights and the calibration are kept."""
        self.model.forget_events()
        self._tags[:] = UNKNOWN_TAG
        self._outcomes.clear()
        self._rows_by_tag.clear()
        self._sample_rows.clear()
        self._episodes = Episodes(self._gap)
        self._learned_rows.clear()

    def forecast(self, row: int) -> TagForecast | None:
        """What is predicted for an observed event; None: nothing was learned yet."""
        context = self._corpus.contexts[row]
        prediction = self.model.predict(context, self._corpus.vocabulary.attributes)
        if prediction is None:
            return None
        votes = self.model.count_votes(context, self._corpus.counts())
        return self.model.forecast_tags(context, prediction.log_probabilities, votes)

    def build_query(self, row: int, counts: CorpusCounts | None = None) -> LearnedQuery:
        """An observed event as a query. `counts`: of the same terms; None: those of the corpus."""
        forecast = self.forecast(row)
        probabilities = np.zeros(0) if forecast is None else forecast.shares
        return self._build_query(row, probabilities, counts or self._corpus.counts())

    def _build_query(self, row: int, probabilities: Floats, counts: CorpusCounts) -> LearnedQuery:
        context = self._corpus.contexts[row]
        ts, place_number = self._corpus.times[row], int(self._places[row])
        return self.model.build_query(context, ts, place_number, counts, probabilities)

    def _event_times(self, count: int) -> npt.NDArray[np.int64]:
        new_times = self._corpus.times[len(self._times) : count]
        if new_times:
            self._times = np.concatenate([self._times, np.array(new_times, dtype=np.int64)])
        return self._times[:count]

    def past_rows(self, count: int) -> PastRows:
        """The first `count` rows, with the tags that are known now."""
        return PastRows(
            self._corpus.contexts.oldest_rows(count),
            PastFacts(self._event_times(count), self._places[:count], self._tags[:count]),
        )


def _is_selected(count: int, full_count: int, power: int) -> bool:
    """Whether to use the event or episode after `count`: all up to `full_count`, then fewer and
    fewer. After n times as many, one in n^`power` is used.
    """
    step = int(max(count // full_count, 1) ** power)
    return count % step == 0


def _draw(random: np.random.Generator, rows: list[int], count: int) -> list[int]:
    """Different rows, at random."""
    if len(rows) <= count:
        return rows
    positions = random.choice(len(rows), count, replace=False)
    return [rows[position] for position in positions.tolist()]
