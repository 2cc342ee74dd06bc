"""Is there anything comparable at all? The probability that the best hit is of the same kind as the new event.

Scores of different events are not comparable by themselves; what they were worth is learned (`calibration`) from events
whose kind is known by now, by logistic regression over a few features of an answer (Platt, Advances in Large Margin
Classifiers, 1999). Light to import: it is asked wherever an answer is shown.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import exp, log10
from typing import Any


def answer_features(
    scores: Sequence[float], kinds: Sequence[str | None], events: int
) -> tuple[float, ...]:
    """What an answer looks like. `scores`, best first, at least one; `kinds` of the hits, where known; `events`: E.

    The best score, its lead over the second, the mean of the others, how many of the others whose kind is known are
    of the best one's kind (drawn to a half where few are known), and how much there was to choose from.
    """
    others = scores[1:]
    known = [kind for kind in kinds[1:] if kind is not None]
    alike = sum(kind == kinds[0] for kind in known) if kinds[0] is not None else 0
    return (
        scores[0],
        scores[0] - others[0] if others else scores[0],
        sum(others) / len(others) if others else 0.0,
        (alike + 0.5) / (len(known) + 1) if kinds[0] is not None else 0.5,
        log10(max(events, 1)),
    )


# Beyond this a probability is 0 or 1 to all digits.
_MAX_LOGIT = 500.0


@dataclass(frozen=True)
class Calibration:
    """What was learned: of `cases` answers, the last of them at `until` (microseconds)."""

    center: tuple[float, ...]
    scale: tuple[float, ...]
    weights: tuple[float, ...]
    offset: float
    cases: int
    until: int

    def probability(self, features: Sequence[float]) -> float:
        """That the best hit is of the same kind, for an answer that looks like this."""
        each = zip(features, self.center, self.scale, self.weights, strict=True)
        logit = self.offset + sum(
            (value - mid) / width * weight for value, mid, width, weight in each
        )
        return 1 / (1 + exp(-max(min(logit, _MAX_LOGIT), -_MAX_LOGIT)))

    def to_json(self) -> dict[str, Any]:
        """As stored."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Calibration":
        """From what was stored."""
        lists = {name: tuple(stored[name]) for name in ("center", "scale", "weights")}
        return cls(**{**stored, **lists})
