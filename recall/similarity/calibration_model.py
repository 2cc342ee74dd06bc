"""Probability that the best hit of an answer is of the same kind as the new event.

Scores of different events are not comparable with each other. What an answer is worth follows from
a few features of it by logistic regression (Platt, Advances in Large Margin Classifiers, 1999),
which `recall.relevance.calibration` fits to events of known kind. This module applies a fitted
model; it is light to import, because every view of an answer needs it. No I/O.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import exp, log10
from typing import Any

from archiver.times import Micros

# Beyond this absolute value, a probability is 0 or 1 in double precision.
_MAX_LOGIT = 500.0


def answer_features(
    scores: Sequence[float], kinds: Sequence[str | None], event_count: int
) -> tuple[float, ...]:
    """The features of an answer, in the order of `Calibration.weights`.

    `scores`: of the hits, best first, at least one. `kinds`: of the same hits, None where unknown.
    `event_count`: E, the number of events that the corpus counts.

    The features are: the best score; its lead over the second; the mean of the other scores; the
    share of the other hits of known kind that are of the best hit's kind (pulled towards 0.5 where
    few are known); log10 of E.
    """
    best_score, other_scores = scores[0], scores[1:]
    lead, mean_of_others = best_score, 0.0
    if other_scores:
        lead = best_score - other_scores[0]
        mean_of_others = sum(other_scores) / len(other_scores)
    best_kind, agreement = kinds[0], 0.5
    if best_kind is not None:
        known_kinds = [kind for kind in kinds[1:] if kind is not None]
        agreement = (known_kinds.count(best_kind) + 0.5) / (len(known_kinds) + 1)
    return best_score, lead, mean_of_others, agreement, log10(max(event_count, 1))


@dataclass(frozen=True)
class Calibration:
    """A logistic regression over standardised features, stored as JSON.

    `center`, `scale`: mean and standard deviation by feature; `offset`: the intercept. It was
    fitted to `cases` answers, the last of them at event time `until`.
    """

    center: tuple[float, ...]
    scale: tuple[float, ...]
    weights: tuple[float, ...]
    offset: float
    cases: int
    until: Micros

    def probability(self, features: Sequence[float]) -> float:
        """The probability that the best hit is of the same kind, by `answer_features`."""
        weighted_sum = 0.0
        for value, center, scale, weight in zip(
            features, self.center, self.scale, self.weights, strict=True
        ):
            weighted_sum += (value - center) / scale * weight
        logit = self.offset + weighted_sum
        return 1 / (1 + exp(-max(min(logit, _MAX_LOGIT), -_MAX_LOGIT)))

    def to_json(self) -> dict[str, Any]:
        """The fields by name; `from_json` is the inverse."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Calibration":
        """Restore what `to_json` returned."""
        return cls(
            center=tuple(stored["center"]),
            scale=tuple(stored["scale"]),
            weights=tuple(stored["weights"]),
            offset=stored["offset"],
            cases=stored["cases"],
            until=stored["until"],
        )
