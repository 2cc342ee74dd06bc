"""The past events among which a scorer ranks, when ranking all of them would take too long. No I/O.

Candidates are the best by TF-IDF, and of each group of events that the scorer names its best by
TF-IDF. Which events these are does not depend on how history is divided into pieces.
"""

from collections.abc import Sequence

import numpy as np

from recall.similarity.corpus import Floats
from recall.similarity.events import EventKey
from recall.similarity.ranking import RankedHit, TopK

# In a corpus with up to this many events, all are ranked.
RANK_ALL_EVENTS = 10_000
BEST_COUNT = 200
"""The number of candidates that are the best of all events."""
BEST_OF_GROUP = 50
"""The same for each group."""


class Candidates:
    """The candidates so far, with what the scorer says about each."""

    def __init__(self, group_count: int) -> None:
        sizes = [BEST_COUNT] + [BEST_OF_GROUP] * group_count
        self.lists: list[TopK[EventKey]] = [TopK(size) for size in sizes]
        """By TF-IDF: the best of all events, then those of each group."""
        self._scores: dict[EventKey, float] = {}

    @property
    def keys(self) -> set[EventKey]:
        """The candidates."""
        return {hit.event for top in self.lists for hit in top.hits}

    def unscored(self) -> list[EventKey]:
        """The candidates that the scorer has not scored yet, oldest first."""
        return sorted(self.keys - self._scores.keys())

    def set_scores(self, keys: Sequence[EventKey], scores: Floats) -> None:
        """What the scorer says about some candidates."""
        self._scores.update(zip(keys, scores.tolist(), strict=True))

    def update_top(self, top: TopK[EventKey]) -> bool:
        """Rank all candidates. Returns whether the hits have changed."""
        keys = self.keys
        self._scores = {key: score for key, score in self._scores.items() if key in keys}
        ranked = sorted(
            ((score, key) for key, score in self._scores.items() if score > 0), reverse=True
        )
        hits = [RankedHit(key, score) for score, key in ranked[: top.k]]
        changed = hits != top.hits
        top.hits = hits
        return changed

    def to_json(self) -> list[list[tuple[int, str, float]]]:
        """The lists; `restore` is the inverse."""
        return [[(*hit.event, hit.score) for hit in top.hits] for top in self.lists]

    def restore(self, stored: Sequence[Sequence[tuple[int, str, float]]]) -> None:
        """Continue from what `to_json` returned. The scores are computed again."""
        for top, hits in zip(self.lists, stored, strict=True):
            top.hits = [RankedHit((ts, eid), score) for ts, eid, score in hits]


class FoundRows:
    """The best rows of the segments of one search, for one list of candidates."""

    def __init__(self, top: TopK[EventKey]) -> None:
        self._top = top
        self._best_scores = np.array([hit.score for hit in top.hits])
        self.min_score = top.min_score
        """The score that a row must reach."""
        self._parts: list[tuple[int, np.ndarray, Floats]] = []  # type: ignore[type-arg]

    def add(self, segment: int, rows: np.ndarray, scores: Floats) -> None:  # type: ignore[type-arg]
        """Add rows of a segment."""
        self._parts.append((segment, rows, scores))
        best = np.concatenate([self._best_scores, scores])
        if len(best) >= self._top.k:
            best = np.partition(best, len(best) - self._top.k)[-self._top.k :]
            self.min_score = float(best[0])
        self._best_scores = best

    def select(self) -> list[tuple[int, int, float]]:
        """Segment, row and score of the rows that may be among the best."""
        selected = []
        for segment, rows, scores in self._parts:
            kept = scores >= self.min_score
            for row, score in zip(rows[kept].tolist(), scores[kept].tolist(), strict=True):
                selected.append((segment, row, score))
        return selected
