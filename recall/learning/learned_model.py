"""The learned measure: tag model, pair model and calibration together. No I/O."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from archiver.times import Micros
from recall.intervals import wilson_interval
from recall.learning.forecast_record import ForecastRecord
from recall.learning.pair_model import TERM_FEATURES, Feature, PairModel
from recall.learning.resolution_forecast import (
    MIN_EPISODES,
    ForecastShares,
    LabelShares,
    ResolutionForecast,
)
from recall.learning.tag_calibration import TagCalibration
from recall.learning.tag_mixture import TagForecast, TagHistory, TagMixture
from recall.learning.tag_model import TagModel, TagPrediction
from recall.learning.votes import Votes
from recall.similarity.measures import (
    MEASURES,
    UNLEARNED_MEASURE,
    ContextVector,
    CorpusCounts,
    Floats,
    Ids,
    SparseRows,
)
from recall.similarity.segments import score_by_measures

# Tags of past events, by number; -1: unknown.
TagIds = npt.NDArray[np.int32]

UNKNOWN_TAG = -1
# Added to probabilities before the logarithm: all improbable tags are about equally far away.
_PROBABILITY_FLOOR = 0.01
_MICROS_PER_DAY = 86_400e6
_MIN_AGE = 1 / 1440  # days
# Scores are a logistic function of the weighted sum divided by this, so that they stay below 1.
_SCORE_SCALE = 4.0


@dataclass(frozen=True)
class LearnedQuery:
    """A new event, with what the model says about its tag."""

    context: ContextVector
    ts: Micros
    place: int
    """The number of its place; -1: unknown."""
    counts: CorpusCounts
    probabilities: Floats
    """By tag, if it is not new: of the mixed forecast. Empty: nothing was learned yet."""
    chance: float
    """The probability that a past event of unknown tag has the same tag."""

    @cached_property
    def tag_features(self) -> Floats:
        """The feature by tag. The last one is that of the unknown tag, whose number is -1."""
        features: Floats = np.log(np.append(self.probabilities, self.chance) + _PROBABILITY_FLOOR)
        return features


class PastFacts(NamedTuple):
    """What is known about past events beside their contexts. `places`: numbers; -1: unknown."""

    times: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]
    tags: TagIds


@dataclass(frozen=True)
class PastRows:
    """Past events."""

    contexts: SparseRows
    facts: PastFacts

    def select(self, rows: npt.NDArray[np.intp]) -> "PastRows":
        """Some rows, in the given order."""
        times, place_numbers, tags = self.facts
        facts = PastFacts(times[rows], place_numbers[rows], tags[rows])
        return PastRows(self.contexts.select_rows(rows), facts)


class LearnedModel:
    """What was learned from resolutions.

    `use_time`: whether recency counts.
    """

    def __init__(
        self,
        tag_model: TagModel,
        pair_model: PairModel,
        calibration: TagCalibration,
        mixture: TagMixture,
    ) -> None:
        self.tag_model = tag_model
        self.pair_model = pair_model
        self.calibration = calibration
        self.mixture = mixture
        self.use_time = mixture.use_time
        self.history = TagHistory()
        self.votes = Votes()
        self.record = ForecastRecord()

    @classmethod
    def empty(cls, use_time: bool, refits: bool = True) -> "LearnedModel":
        """A model that has learned nothing: it ranks as `attributes`.

        `refits`: whether it is fitted again from time to time while it learns.
        """
        pair_model, calibration = PairModel(refits=refits), TagCalibration(refits)
        return cls(TagModel(use_time), pair_model, calibration, TagMixture(use_time))

    def fit(self) -> None:
        """Fit the weights of pairs and the calibration to everything that was learned."""
        self.pair_model.fit()
        self.calibration.fit()

    def forget_events(self) -> None:
        """Forget which events have which tags. What was fitted, and the mixture, are kept."""
        self.tag_model.forget_events()
        self.history.forget_tags()
        self.votes = Votes()

    def predict(self, context: ContextVector, attributes: Ids) -> TagPrediction | None:
        """None: nothing was learned yet."""
        if not self.tag_model.event_count:
            return None
        return self.tag_model.predict(context, attributes)

    def build_query(
        self,
        context: ContextVector,
        ts: Micros,
        place_number: int,
        counts: CorpusCounts,
        probabilities: Floats,
    ) -> LearnedQuery:
        """What ranking needs to know about a new event.

        `context` and `counts` have the terms of the vocabulary of the past events.
        `probabilities`: by tag, if it is not new; empty: nothing was learned yet.
        """
        chance = 0.0
        if len(probabilities):
            chance = float(probabilities @ self.history.frequencies())
        return LearnedQuery(context, ts, place_number, counts, probabilities, chance)

    def pair_features(self, query: LearnedQuery, past: PastRows) -> Floats:
        """The features of the new event with each past one, by row and `Feature`."""
        features = np.zeros((len(past.contexts), len(Feature)))
        counts = query.counts
        score_by_measures(
            query.context.terms,
            query.context.counts,
            past.contexts.starts,
            past.contexts.terms,
            past.contexts.counts,
            float(max(counts.event_count, 1)),
            counts.document_frequencies,
            counts.attributes,
            int(counts.attributes.max(initial=-1)) + 1,
            max(past.contexts.width, int(query.context.terms.max(initial=-1)) + 1),
            features,
        )
        features[:, TERM_FEATURES:] = self._compare_facts(query, past.facts)
        return features

    def _compare_facts(self, query: LearnedQuery, facts: PastFacts) -> Floats:
        """The features that do not depend on contexts, by row."""
        features = np.zeros((len(facts.tags), len(Feature) - TERM_FEATURES), order="F")
        features[:, Feature.TAG - TERM_FEATURES] = query.tag_features[facts.tags]
        same_place = (facts.places == query.place) & (query.place >= 0)
        features[:, Feature.PLACE - TERM_FEATURES] = same_place
        if self.use_time:
            ages = np.maximum((query.ts - facts.times) / _MICROS_PER_DAY, _MIN_AGE)
            features[:, Feature.RECENCY - TERM_FEATURES] = -np.log(ages)
        return features

    def estimate_offsets(self, query: LearnedQuery, facts: PastFacts) -> Floats:
        """By past event, what is added to its score by TF-IDF, so that the sum orders events about
        as `score` does: what the tag, place and age add, in the same unit. In single precision:
        there may be a hundred thousand events.
        """
        weights = self.pair_model.weights / self.pair_model.term_weight
        by_tag = weights[Feature.TAG] * query.tag_features
        offsets = by_tag.astype(np.float32).take(facts.tags, mode="wrap")
        if query.place >= 0:
            offsets += np.float32(weights[Feature.PLACE]) * (facts.places == query.place)
        if self.use_time:
            ages = (query.ts - facts.times).astype(np.float32)
            np.maximum(ages, np.float32(_MIN_AGE * _MICROS_PER_DAY), out=ages)
            ages *= np.float32(1 / _MICROS_PER_DAY)
            np.log(ages, out=ages)
            ages *= np.float32(weights[Feature.RECENCY])
            offsets -= ages
        in_double_precision: Floats = offsets.astype(np.float64)
        return in_double_precision

    def score(self, query: LearnedQuery, past: PastRows) -> Floats:
        """The score of each past event; 0: it shares no term with the new one."""
        return self.score_features(query, past, self.pair_features(query, past))

    def score_features(self, query: LearnedQuery, past: PastRows, features: Floats) -> Floats:
        """`score`, with the features of the past events.

        Until weights are learned, it is that of `attributes`.
        """
        if not self.pair_model.is_fitted:
            return MEASURES[UNLEARNED_MEASURE].score_rows(
                query.context, past.contexts, query.counts
            )
        scores = to_score(features @ self.pair_model.weights)
        scores[features[:, Feature.BINARY] == 0] = 0
        return scores

    def count_votes(self, context: ContextVector, counts: CorpusCounts) -> Floats:
        """See `Votes.count`. `counts`: of the model's vocabulary."""
        return self.votes.count(context, counts, self.history.frequencies())

    def forecast_tags(
        self, context: ContextVector, log_probabilities: Floats, votes: Floats
    ) -> TagForecast:
        """What all predictors say about the tag of an event.

        `log_probabilities`: by tag, of the tag model. `votes`: see `Votes.count`. `context` has the
        terms of the model's vocabulary.
        """
        chance = self.calibration.new_tag_chance(self.novelty_features(context, log_probabilities))
        shares = self.calibration.shares(log_probabilities)
        chances = (chance, 1 / (self.tag_model.event_count + 1))
        return self.mixture.mix(shares, votes, chances, self.history)

    def novelty_features(self, context: ContextVector, log_probabilities: Floats) -> Floats:
        """See `TagCalibration.features`."""
        unknown_share = self.tag_model.unknown_share(context)
        return self.calibration.features(
            log_probabilities, unknown_share, self.history.recent_new_tag_share
        )

    def make_forecast(
        self, probabilities: Floats, new_tag: float, count: int
    ) -> ResolutionForecast:
        """The `count` most probable tags. `probabilities`: by tag."""
        tags = self._best_tags(probabilities, count)
        return ResolutionForecast(
            tags,
            new_tag,
            self.history.episode_count,
            [self.record.interval(probability) for _, probability in tags],
            self.record.interval(new_tag),
            self._forecast_by_frequencies(count),
        )

    def _best_tags(self, shares: Floats, count: int) -> list[tuple[str, float]]:
        best = np.argsort(-shares, kind="stable")[:count]
        return [(self.tag_model.tags[tag], float(shares[tag])) for tag in best]

    def frequencies(self) -> Floats:
        """By tag, its share of all episodes, and last that of a tag that was never seen."""
        counts = self.history.counts
        shares = np.zeros(len(self.tag_model.tags) + 1)
        shares[: len(counts)] = counts
        shares[-1] = 1
        shares /= counts.sum() + 1
        return shares

    def _forecast_by_frequencies(self, count: int) -> LabelShares:
        """The `count` most frequent tags."""
        shares = self.frequencies()
        tags = self._best_tags(shares[:-1], count)
        episodes = float(self.history.counts.sum())
        new_tag = float(shares[-1])
        return LabelShares(
            tags,
            new_tag,
            [wilson_interval(share, episodes) for _, share in tags],
            wilson_interval(new_tag, episodes),
        )

    def shares_of_labels(self, probabilities: Floats, new_tag: float) -> ForecastShares:
        """What is compared with the tag, once it is known. `probabilities`: by tag."""
        shares = self.frequencies()
        pairs = zip(probabilities.tolist(), shares[:-1].tolist(), strict=True)
        return ForecastShares(
            dict(zip(self.tag_model.tags, pairs, strict=True)),
            (new_tag, float(shares[-1])),
            self.history.episode_count < MIN_EPISODES,
        )


def to_score(logits: Floats) -> Floats:
    """A monotonic map to (0, 1], rounded so that mathematically equal scores tie."""
    scores: Floats = np.round(1 / (1 + np.exp(-(logits) / _SCORE_SCALE)), 12)
    return scores
