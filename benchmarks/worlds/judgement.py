"""Figures of a world over all its seeds: `learned` beside `attributes` and plain frequencies."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks.worlds.evaluation import Outcomes
from recall.relevance import calibration_error, perfect_calibration_error

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

MAX_HALF_WIDTH = 0.05
"""A world whose interval is wider does not count as passed."""
_MAX_CALIBRATION_EXCESS = 0.05
# From so many resolved episodes on, `learned` must not be worse; after a shift again.
_FIRST_EPISODES = 10
_EPISODES_AFTER_SHIFT = 30
_RESAMPLES = 1000
_PERCENTILES = (2.5, 97.5)
# With fewer seeds, intervals are wider than they need to be.
_FEW_SEEDS = 20
# What `learned` is compared with, and whether a lower value is better.
COMPARISONS = {
    "p1": ("attributes", False),
    "p10": ("attributes", False),
    "loss": ("frequencies", True),
    "brier": ("frequencies", True),
}


@dataclass(frozen=True)
class SeedOutcomes:
    """The outcomes of one seed. `shifted_from`: see `DrawnWorld`."""

    outcomes: Outcomes
    shifted_from: int | None = None


@dataclass(frozen=True)
class Difference:
    """`learned` minus what it is compared with, and its 95 % interval over seeds and episodes."""

    value: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2


@dataclass(frozen=True)
class WorldFigures:
    """`differences`: by metric; None without alerts that count. `queries`, `episodes`: that count.

    `calibration_error`: of all alerts from the `_FIRST_EPISODES`th episode on, with that of a
    perfect model of as many.
    """

    queries: int
    episodes: int
    withheld_share: float
    differences: dict[str, Difference]
    calibration_error: float
    perfect_calibration_error: float

    @property
    def failures(self) -> list[str]:
        """The names of the criteria that the world does not pass."""
        names = []
        for metric, difference in self.differences.items():
            worse = difference.low > 0 if COMPARISONS[metric][1] else difference.high < 0
            if worse:
                names.append(metric)
            elif difference.half_width > MAX_HALF_WIDTH:
                names.append(f"{metric}: wide interval")
        if self.calibration_error - self.perfect_calibration_error > _MAX_CALIBRATION_EXCESS:
            names.append("calibration")
        return names


def judge_world(seeds: Sequence[SeedOutcomes]) -> WorldFigures | None:
    """The figures of all seeds together; None: no alert counts."""
    rows = [_rows_that_count(seed) for seed in seeds]
    parts = [(seed.outcomes, own) for seed, own in zip(seeds, rows, strict=True) if len(own)]
    if not parts:
        return None
    differences = {}
    for metric, (other, _) in COMPARISONS.items():
        values = [
            (
                outcomes.values[f"{metric} learned"][own]
                - outcomes.values[f"{metric} {other}"][own],
                outcomes.episodes[own],
            )
            for outcomes, own in parts
        ]
        difference = _estimate(values)
        if difference is not None:
            differences[metric] = difference
    predicted = np.concatenate([outcomes.predicted[own] for outcomes, own in parts])
    correct = np.concatenate([outcomes.correct[own] for outcomes, own in parts])
    withheld = np.concatenate([outcomes.withheld[own] for outcomes, own in parts])
    groups = _number_groups([outcomes.episodes[own] for outcomes, own in parts])
    return WorldFigures(
        queries=len(predicted),
        episodes=int(groups.max()) + 1,
        withheld_share=float(withheld.mean()),
        differences=differences,
        calibration_error=calibration_error(predicted, correct),
        perfect_calibration_error=perfect_calibration_error(predicted, groups),
    )


def _rows_that_count(seed: SeedOutcomes) -> Rows:
    outcomes = seed.outcomes
    counts = outcomes.resolved_episodes >= _FIRST_EPISODES
    if seed.shifted_from is not None:
        is_recent = outcomes.resolved_episodes < seed.shifted_from + _EPISODES_AFTER_SHIFT
        counts &= ~((outcomes.episodes >= seed.shifted_from) & is_recent)
    return np.flatnonzero(counts)


def _number_groups(episodes: Sequence[npt.NDArray[np.int64]]) -> Rows:
    """Numbers of the episodes of all seeds, from 0."""
    numbers, first = [], 0
    for own in episodes:
        group = np.unique(own, return_inverse=True)[1] + first
        first = int(group.max()) + 1
        numbers.append(group)
    return np.concatenate(numbers)


def _estimate(parts: Sequence[tuple[Floats, npt.NDArray[np.int64]]]) -> Difference | None:
    """The mean of the values of all seeds, resampled by seed.

    A seed has episodes of its own, so the differences between the means of seeds contain those of
    episodes. To resample both counts these twice: the interval of a mean is then up to 1.4 times as
    wide as it should be (Davison, Hinkley: Bootstrap Methods and their Application, 1997, section
    3.8). Both are resampled where there are few seeds, since these say little about each other.

    NaN: there was nothing to rank. None: there was nowhere.
    """
    sums, sizes = [], []
    for values, episodes in parts:
        ranked = ~np.isnan(values)
        if ranked.any():
            groups = np.unique(episodes[ranked], return_inverse=True)[1]
            sums.append(np.bincount(groups, values[ranked]))
            sizes.append(np.bincount(groups))
    if not sums:
        return None
    rng = np.random.default_rng(0)
    means = np.empty(_RESAMPLES)
    for number in range(_RESAMPLES):
        total = size = 0.0
        for seed in rng.integers(len(sums), size=len(sums)):
            drawn = np.arange(len(sums[seed]))
            if len(sums) < _FEW_SEEDS:
                drawn = rng.integers(len(drawn), size=len(drawn))
            total += sums[seed][drawn].sum()
            size += sizes[seed][drawn].sum()
        means[number] = total / size
    mean = np.concatenate(sums).sum() / np.concatenate(sizes).sum()
    low, high = np.percentile(means, _PERCENTILES)
    return Difference(float(mean), float(low), float(high))
