"""Learning from events and their resolutions, in the order in which they became known. No I/O.

An event is predicted when it occurs, from what was known then. When its tag becomes known, the
prediction is compared with it and the event is counted. So each weight and each calibration is
learned from predictions that could not know the outcome.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from recall.learning.change_detector import ChangeDetector
from recall.learning.learned_model import UNKNOWN_TAG, LearnedModel, LearnedQuery, PastRows
from recall.learning.pair_model import PairSample
from recall.learning.tag_calibration import PastPrediction
from recall.learning.tag_model import PredictionError, TagPrediction, grow
from recall.similarity.measures import Corpus

# Past events in the sample of one event: at random, and of each probable tag and its own.
_RANDOM_EVENTS = 40
_EVENTS_PER_TAG = 25
_PROBABLE_TAGS = 3
# From this number of events on, fewer and fewer make a sample.
_FULL_SAMPLING = 1000
# From this number of events on, fewer and fewer are predicted, so that the weights are learned from
# about 13,000 predictions at most. All events are counted.
_FULL_PREDICTION = 5_000


@dataclass(frozen=True)
class _Outcome:
    """What was predicted when an event occurred, compared with its tag, to be learned later."""

    predicted_at: int
    """How many events were learned then."""
    error: PredictionError | None = None
    sample: PairSample | None = None
    prediction: PastPrediction | None = None


class Learner:
    """Learns from the rows of a corpus, by their numbers."""

    def __init__(
        self, corpus: Corpus, *, use_time: bool, seed: int = 0, refits: bool = True
    ) -> None:
        """`use_time`: whether recent events and occurrences count separately.

        `refits`: whether the model is used while it learns. Otherwise it is fitted once, by `fit`.
        """
        self.model = LearnedModel.empty(use_time, refits)
        self._corpus = corpus
        self._random = np.random.default_rng(seed)
        # By row.
        self._tags = np.full(0, UNKNOWN_TAG, dtype=np.int32)
        self._places = np.full(0, -1, dtype=np.int64)
        self._times = np.zeros(0, dtype=np.int64)
        self._outcomes: dict[int, _Outcome] = {}
        self._rows_by_tag: list[list[int]] = []
        self._learned_rows: list[int] = []
        self._change_detector = ChangeDetector()

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
        attributes = self._corpus.vocabulary.attributes
        prediction = None
        if self._is_selected(_FULL_PREDICTION, 2):
            prediction = model.predict(context, attributes)
        if prediction is None:
            return _Outcome(event_count)
        tag_id = model.tag_model.find_tag(tag)
        unknown_share = model.tag_model.unknown_share(context)
        past_prediction = PastPrediction(
            prediction.log_probabilities,
            model.calibration.features(prediction.log_probabilities, unknown_share),
            tag_id,
        )
        if tag_id is None:
            return _Outcome(event_count, None, None, past_prediction)
        sample = None
        if self._is_selected(_FULL_SAMPLING, 1):
            sample = self._draw_sample(row, tag_id, prediction)
        return _Outcome(event_count, prediction.error(tag_id), sample, past_prediction)

    def _is_selected(self, full_count: int, power: int) -> bool:
        """Whether to use an event: all up to `full_count` learned events, then fewer and fewer.

        After n times as many, one in n^`power` is used.
        """
        event_count = self.model.tag_model.event_count
        step = int(max(event_count // full_count, 1) ** power)
        return event_count % step == 0

    def _draw_sample(self, row: int, tag_id: int, prediction: TagPrediction) -> PairSample | None:
        """None if the drawn events do not differ in whether they have the tag."""
        query = self._build_query(row, prediction)
        probable_tags = np.argsort(-query.probabilities)[:_PROBABLE_TAGS].tolist()
        strata = [self._rows_by_tag[tag] for tag in sorted({*probable_tags, tag_id})]
        event_count = len(self._learned_rows) - sum(map(len, strata))
        rows: list[int] = []
        represented: list[float] = []
        for stratum in strata:
            drawn = self._draw(stratum, _EVENTS_PER_TAG)
            rows += drawn
            represented += [len(stratum) / len(drawn)] * len(drawn)
        drawn_tags = {*probable_tags, tag_id}
        other_rows = self._draw(self._learned_rows, _RANDOM_EVENTS)
        other_rows = [
            other_row for other_row in other_rows if int(self._tags[other_row]) not in drawn_tags
        ]
        rows += other_rows
        represented += [event_count / len(other_rows)] * len(other_rows) if other_rows else []
        drawn_rows = np.array(rows, dtype=np.intp)
        relevant = self._tags[drawn_rows] == tag_id
        if relevant.all() or not relevant.any():
            return None
        past = self.past_rows(int(drawn_rows.max()) + 1).select(drawn_rows)
        features = self.model.pair_features(query, past)
        return PairSample(features, relevant, np.array(represented))

    def _draw(self, rows: list[int], count: int) -> list[int]:
        """Different rows, at random."""
        if len(rows) <= count:
            return rows
        positions = self._random.choice(len(rows), count, replace=False)
        return [rows[position] for position in positions.tolist()]

    def learn(self, row: int, tag: str) -> None:
        """The tag of an event that was observed is known from now on."""
        outcome = self._outcomes.pop(row)
        model = self.model
        known_at = model.tag_model.event_count
        is_new = self._count(row, tag, outcome.error)
        if outcome.sample is not None:
            model.pair_model.learn(outcome.sample)
        model.calibration.learn(outcome.prediction, is_new)
        prediction = outcome.prediction
        if prediction is not None and prediction.tag is not None:
            best = int(np.argmax(prediction.log_probabilities))
            if self._change_detector.add(
                row,
                float(np.exp(prediction.log_probabilities[best])),
                best == prediction.tag,
                predicted_at=outcome.predicted_at,
                known_at=known_at,
            ):
                self._forget_old_meaning()

    def _count(self, row: int, tag: str, error: PredictionError | None) -> bool:
        """Count an event with its tag. Returns whether the tag is new."""
        tag_model = self.model.tag_model
        is_new = tag_model.find_tag(tag) is None
        tag_id = tag_model.learn(self._corpus.contexts[row], tag, error)
        if is_new:
            self._rows_by_tag.append([])
        self._tags[row] = tag_id
        self._rows_by_tag[tag_id].append(row)
        self._learned_rows.append(row)
        return is_new

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
            self._count(row, tag, None)

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
        self.model.tag_model.forget_events()
        self._tags[:] = UNKNOWN_TAG
        self._outcomes.clear()
        self._rows_by_tag.clear()
        self._learned_rows.clear()

    def build_query(self, row: int) -> LearnedQuery:
        """An observed event as a query."""
        context = self._corpus.contexts[row]
        attributes = self._corpus.vocabulary.attributes
        return self._build_query(row, self.model.predict(context, attributes))

    def _build_query(self, row: int, prediction: TagPrediction | None) -> LearnedQuery:
        context, counts = self._corpus.contexts[row], self._corpus.counts()
        ts, place_number = self._corpus.times[row], int(self._places[row])
        probabilities = np.zeros(0) if prediction is None else prediction.probabilities
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
            self._event_times(count),
            self._places[:count],
            self._tags[:count],
        )
