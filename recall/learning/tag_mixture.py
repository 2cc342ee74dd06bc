"""The tag of an event by several predictors, mixed by how well each has predicted. No I/O.

Two things are predicted: whether the tag is new, and if it is not, which one it is. For each there
are several predictors, whose weights are learned from predictions that were made before the tag was
known. The log loss of the forecast is the sum of both losses, so their bounds add up too. So does
that of the last stage, which mixes the mean of the predictors with its calibration.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from recall.learning.arrays import grow
from recall.learning.best_tag import BestTagCalibration
from recall.learning.switching_mixture import SwitchingMixture
from recall.learning.tag_pool import TagPool
from recall.similarity.measures import Floats

# The chance that another predictor becomes the best one, at each episode.
_SHARE = 0.02
# How much less each earlier episode counts: about the last 20, and the last 4.
_RECENT_DECAY = 0.95
_NEWEST_DECAY = 0.75
# Earlier episodes count next to nothing.
_COUNTED_EPISODES = 200
# What the frequencies of all episodes are counted in addition: for recent ones, and for each tag.
_RECENT_SMOOTHING = 1.0  # episodes
_TAG_SMOOTHING = 0.5  # episodes
_MIN_PROBABILITY = 1e-4
# Before anything is learned. Of `learned`, votes, nearest, all, recent and newest frequencies.
_POOL_WEIGHTS = np.array([0.7, 0.2, 0.1, 0.0, 0.0, 0.0])
# Of the pool of these, and of each of them.
_TAG_WEIGHTS = np.array([4.0, 4.0, 2.0, 1.0, 2.0, 1.0, 1.0])
# Of the mean of the predictors, and the same calibrated.
_STAGE_WEIGHTS = np.array([1.0, 30.0])
# Of the regression, plain frequencies, the recent share, that of all, and that if no other is new.
_NOVELTY_WEIGHTS = np.array([1.0, 1.0, 2.0, 1.0, 1.0])
_TIMELESS_TAG_PREDICTORS = 4


@dataclass(frozen=True)
class TagForecast:
    """What is predicted for an event.

    `shares`: by tag, the probability if the tag is not new; `new_tag`: that it is. `distributions`:
    the same by predictor and tag, first that of the pool of the others; `chances`: by predictor,
    that it is new. `stages`: by tag, the mean of the predictors, and the same calibrated.
    """

    shares: Floats
    new_tag: float
    distributions: Floats
    chances: Floats
    stages: Floats

    @property
    def probabilities(self) -> Floats:
        """By tag; with `new_tag`, they add up to 1."""
        return self.shares * (1 - self.new_tag)

    @property
    def best_probability(self) -> float:
        """That of the most probable label, which may be "none of these"."""
        return max(float(self.probabilities.max(initial=0.0)), self.new_tag)


class TagHistory:
    """How often each tag occurred, by episode: in all, and with earlier episodes counting less."""

    def __init__(self) -> None:
        self._count = 0
        self._totals = np.zeros(0)
        self._newest_tags: deque[int] = deque(maxlen=_COUNTED_EPISODES)
        # Of new tags: how many episodes have one, of all and with earlier ones counting less; and
        # how many episodes these are of.
        self.episode_count = 0
        self._new_count = self._recent_new_count = 0.5
        self._recent_count = 1.0

    def learn(self, tag_id: int, is_new: bool) -> None:
        """Count an episode."""
        self._count = max(self._count, tag_id + 1)
        self._totals = grow(self._totals, self._count)
        self._totals[tag_id] += 1
        self._newest_tags.append(tag_id)
        self._new_count += is_new
        self._recent_new_count = self._recent_new_count * _RECENT_DECAY + is_new
        self._recent_count = self._recent_count * _RECENT_DECAY + 1
        self.episode_count += 1

    def forget_tags(self) -> None:
        """Forget how often each tag occurred, not how many were new."""
        self._count = 0
        self._totals = np.zeros(0)
        self._newest_tags.clear()

    @property
    def counts(self) -> Floats:
        """By tag, the number of episodes."""
        return self._totals[: self._count]

    def frequencies(self) -> Floats:
        """By tag, its share of all episodes."""
        smoothed = self._totals[: self._count] + _TAG_SMOOTHING
        shares: Floats = smoothed / smoothed.sum()
        return shares

    def recent_frequencies(self) -> Floats:
        """The frequencies of about the last 20 episodes, and of the last 4, as two rows."""
        ages = np.arange(len(self._newest_tags))[::-1]
        tags = np.array(self._newest_tags, dtype=np.int64)
        recent = [
            np.bincount(tags, decay**ages, self._count) for decay in (_RECENT_DECAY, _NEWEST_DECAY)
        ]
        rows = np.array(recent) + _RECENT_SMOOTHING * self.frequencies()
        shares: Floats = rows / rows.sum(axis=1, keepdims=True)
        return shares

    @property
    def recent_new_tag_share(self) -> float:
        """The share of new tags among recent episodes."""
        return self._recent_new_count / self._recent_count

    def new_tag_shares(self) -> list[float]:
        """The share of new tags among recent episodes, among all, and if no other one is new."""
        share = self._new_count / (self.episode_count + 1)
        return [self.recent_new_tag_share, share, 1 / (self.episode_count + 2)]

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The state as arrays; `from_arrays` is the inverse."""
        return {
            "totals": self.counts,
            "newest_tags": np.array(self._newest_tags, dtype=np.int64),
            "novelty": np.array(
                [self._new_count, self._recent_new_count, self._recent_count, self.episode_count]
            ),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> "TagHistory":
        """Restore what `to_arrays` returned."""
        history = cls()
        history._totals = arrays["totals"].copy()
        history._count = len(history._totals)
        history._newest_tags.extend(arrays["newest_tags"].tolist())
        *counts, episode_count = arrays["novelty"].tolist()
        history._new_count, history._recent_new_count, history._recent_count = counts
        history.episode_count = int(episode_count)
        return history


class TagMixture:
    """The weights of the predictors of tags, and of those of new tags."""

    def __init__(self, use_time: bool) -> None:
        """`use_time`: whether recent frequencies are predictors."""
        self.use_time = use_time
        count = len(_POOL_WEIGHTS) if use_time else _TIMELESS_TAG_PREDICTORS
        self.pool = TagPool(_POOL_WEIGHTS[:count])
        self.tags = SwitchingMixture(_TAG_WEIGHTS[: count + 1], _SHARE)
        self.novelty = SwitchingMixture(_NOVELTY_WEIGHTS, _SHARE)
        self.best_tag = BestTagCalibration()
        self.stages = SwitchingMixture(_STAGE_WEIGHTS, _SHARE)

    def mix(
        self, learned: Floats, votes: Floats, new_tag_chances: Sequence[float], history: TagHistory
    ) -> TagForecast:
        """`learned`: by tag. `votes`: of the best hits and of the best one, by tag, see `Votes`.
        `new_tag_chances`: by the regression, and by the frequencies with which forecasts are
        compared, so that the mixture is at most a bounded loss worse than these.
        """
        rows = [learned, *votes, history.frequencies()]
        if self.use_time:
            rows += [*history.recent_frequencies()]
        predictors = np.array(rows)
        distributions = np.vstack([self.pool.pool(predictors), predictors])
        chances = np.array([*new_tag_chances, *history.new_tag_shares()])
        chances = np.clip(chances, _MIN_PROBABILITY, 1 - _MIN_PROBABILITY)
        mixed = self.tags.weights @ distributions
        stages = np.array([mixed, self.best_tag.correct(mixed)])
        return TagForecast(
            self.stages.weights @ stages,
            float(self.novelty.weights @ chances),
            distributions,
            chances,
            stages,
        )

    def learn(self, forecast: TagForecast, tag_id: int | None, weight: float = 1.0) -> None:
        """The tag of an event is known.

        `tag_id`: None: it was not among the tags. `weight`: how much the event counts.
        """
        if tag_id is None:
            self.novelty.learn(-weight * np.log(forecast.chances))
            return
        self.novelty.learn(-weight * np.log(1 - forecast.chances))
        pooled, predictors = forecast.distributions[0], forecast.distributions[1:]
        self.pool.learn(predictors, pooled, tag_id, weight)
        probabilities = np.maximum(forecast.distributions[:, tag_id], _MIN_PROBABILITY)
        self.tags.learn(-weight * np.log(probabilities))
        probabilities = np.maximum(forecast.stages[:, tag_id], _MIN_PROBABILITY)
        self.stages.learn(-weight * np.log(probabilities))
        self.best_tag.learn(forecast.stages[0], tag_id, weight)
