"""Probabilities about an answer: that its best hit is of the same kind as the new event, and that
nothing in the history is.

Scores of different events are not comparable with each other. What an answer is worth follows from
a few features of it by logistic regression (Platt, Advances in Large Margin Classifiers, 1999),
mixed with plain shares of the past. `recall.relevance.calibration` learns both from episodes of
known kind. This module applies what was learned; it is light to import, because every view of an
answer needs it. No I/O.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import exp, log10
from typing import Any

from archiver.times import Micros
from recall.intervals import interval_by_cases

MIN_EPISODES = 20
"""With fewer episodes of known kind, no probabilities are stated."""
# Beyond this absolute value, a probability is 0 or 1 in double precision.
_MAX_LOGIT = 500.0


def answer_features(
    scores: Sequence[float], kinds: Sequence[str | None], event_count: int
) -> tuple[float, ...]:
    """The features of an answer, in the order of `OutcomeModel.weights`.

    `scores`: of the hits, best first. `kinds`: of the same hits, None where unknown.
    `event_count`: E, the number of events that the corpus counts.

    The features are: the best score; its lead over the second; the mean of the other scores; the
    share of the other hits of known kind that are of the best hit's kind (pulled towards 0.5 where
    few are known); log10 of E.
    """
    best_score = scores[0] if scores else 0.0
    other_scores = scores[1:]
    lead, mean_of_others = best_score, 0.0
    if other_scores:
        lead = best_score - other_scores[0]
        mean_of_others = sum(other_scores) / len(other_scores)
    best_kind = kinds[0] if kinds else None
    agreement = 0.5
    if best_kind is not None:
        known_kinds = [kind for kind in kinds[1:] if kind is not None]
        agreement = (known_kinds.count(best_kind) + 0.5) / (len(known_kinds) + 1)
    return best_score, lead, mean_of_others, agreement, log10(max(event_count, 1))


@dataclass(frozen=True)
class OutcomeModel:
    """The probability of one outcome, from features of an answer.

    A logistic regression over standardised features (`center`, `scale`: mean and deviation by
    feature; `offset`: the intercept), mixed with `shares` of past episodes: `mixture` has the
    weight of the regression and those of the shares. `tested`: probabilities that were computed
    before the outcome was known.
    """

    center: tuple[float, ...]
    scale: tuple[float, ...]
    weights: tuple[float, ...]
    offset: float
    shares: tuple[float, ...]
    mixture: tuple[float, ...]
    tested: tuple[float, ...]

    def predictions(self, features: Sequence[float]) -> tuple[float, ...]:
        """The probabilities that are mixed: by the regression, and the shares."""
        logit = self.offset
        for value, center, scale, weight in zip(
            features, self.center, self.scale, self.weights, strict=True
        ):
            logit += (value - center) / scale * weight
        regressed = 1 / (1 + exp(-max(min(logit, _MAX_LOGIT), -_MAX_LOGIT)))
        return regressed, *self.shares

    def probability(self, features: Sequence[float]) -> float:
        """The probability of the outcome, by `answer_features`."""
        pairs = zip(self.mixture, self.predictions(features), strict=True)
        return sum(weight * prediction for weight, prediction in pairs)

    def interval(self, probability: float) -> tuple[float, float]:
        """The 95 % interval of a probability, from episodes with similar ones."""
        return interval_by_cases(probability, self.tested)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "OutcomeModel":
        """Restore what `Calibration.to_json` returned."""
        names = ("center", "scale", "weights", "shares", "mixture", "tested")
        return cls(offset=stored["offset"], **{name: tuple(stored[name]) for name in names})


@dataclass(frozen=True)
class MatchEstimate:
    """How probable it is that the best hit of an answer is of the same kind (`probability`), and
    that nothing in the history is (`nothing_comparable`), with their 95 % intervals.

    `episodes`: from how many this was learned. With too few to say (`withheld`), all others are None.
    """

    episodes: int
    withheld: bool
    probability: float | None = None
    interval: tuple[float, float] | None = None
    nothing_comparable: float | None = None
    nothing_comparable_interval: tuple[float, float] | None = None

    def to_json(self) -> dict[str, Any]:
        """The fields by name, as they are read from stored JSON."""
        fields = asdict(self)
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in fields.items()
        }


@dataclass(frozen=True)
class Calibration:
    """What was learned about the answers of a recall, stored as JSON.

    `match`: whether the best hit is of the same kind. `nothing`: whether nothing in the history is.
    `episodes`: from how many, the last of them at event time `until`.
    """

    match: OutcomeModel
    nothing: OutcomeModel
    episodes: int
    until: Micros

    def estimate(
        self, scores: Sequence[float], kinds: Sequence[str | None], event_count: int | None
    ) -> MatchEstimate:
        """What is probable of an answer, see `answer_features`. Without hits, none of them matches.

        `event_count`: None: as at the other answers.
        """
        if self.episodes < MIN_EPISODES:
            return MatchEstimate(self.episodes, withheld=True)
        if event_count is None:
            event_count = round(10 ** self.nothing.center[-1])
        features = answer_features(scores, kinds, event_count)
        probability = interval = None
        if scores:
            probability = self.match.probability(features)
            interval = self.match.interval(probability)
        nothing = self.nothing.probability(features)
        return MatchEstimate(
            self.episodes, False, probability, interval, nothing, self.nothing.interval(nothing)
        )

    def to_json(self) -> dict[str, Any]:
        """The fields by name; `from_json` is the inverse."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Calibration":
        """Restore what `to_json` returned."""
        return cls(
            OutcomeModel.from_json(stored["match"]),
            OutcomeModel.from_json(stored["nothing"]),
            stored["episodes"],
            stored["until"],
        )
