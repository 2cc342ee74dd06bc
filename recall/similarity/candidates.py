"""The past events among which a scorer ranks, when ranking all of them would take too long. No I/O.

Candidates are the best by TF-IDF, and of each group of events that the scorer names its best by
TF-IDF. Which events these are does not depend on how history is divided into pieces.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from recall.similarity.corpus import Floats
from recall.similarity.events import EventKey
from recall.similarity.ranking import RankedHit, TopK

# In a corpus with up to this many events, all are ranked.
RANK_ALL_EVENTS = 20_000
BEST_COUNT = 100
"""The number of candidates that are the best of all events."""
BEST_OF_GROUP = 50
"""The same for each group."""

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class CandidateRows:
    """Some past events, as arrays. `scores`: by TF-IDF; `final_scores`: by the scorer, or NaN.

    `segments`, `rows`: where they are in the index while it is searched; -1: not known.
    """

    times: Rows
    eids: npt.NDArray[np.bytes_]
    scores: Floats
    final_scores: Floats
    segments: Rows
    rows: Rows

    def __len__(self) -> int:
        return len(self.times)

    def key(self, number: int) -> EventKey:
        """The key of an event."""
        return int(self.times[number]), self.eids[number].decode()

    def select(self, numbers: npt.NDArray[np.intp]) -> "CandidateRows":
        """Some of the events, in the given order."""
        return CandidateRows(
            self.times[numbers],
            self.eids[numbers],
            self.scores[numbers],
            self.final_scores[numbers],
            self.segments[numbers],
            self.rows[numbers],
        )

    def _arrays(self) -> list[npt.NDArray[np.generic]]:
        return [
            self.times,
            self.eids,
            self.scores,
            self.final_scores,
            self.segments,
            self.rows,
        ]

    @staticmethod
    def concatenate(parts: "Sequence[CandidateRows]") -> "CandidateRows":
        """The events of all parts."""
        columns = zip(*(part._arrays() for part in parts), strict=True)
        return CandidateRows(*map(np.concatenate, columns))


def _restore_rows(hits: Sequence[tuple[int, str, float]]) -> CandidateRows:
    unknown = np.full(len(hits), -1, dtype=np.int64)
    return CandidateRows(
        np.array([ts for ts, _, _ in hits], dtype=np.int64),
        np.array([eid.encode() for _, eid, _ in hits], dtype=np.bytes_),
        np.array([score for _, _, score in hits], dtype=np.float64),
        np.full(len(hits), np.nan),
        unknown,
        unknown,
    )


class Candidates:
    """The candidates so far: the best of all events, then those of each group."""

    def __init__(self, group_count: int) -> None:
        self._sizes = [BEST_COUNT] + [BEST_OF_GROUP] * group_count
        self._lists = [_restore_rows([])] * len(self._sizes)

    def best_scores(self, number: int) -> Floats:
        """The scores of a list by TF-IDF, best first, padded with 0."""
        scores = np.zeros(self._sizes[number])
        list_scores = self._lists[number].scores
        scores[: len(list_scores)] = list_scores
        return scores

    def min_score(self, number: int) -> float:
        """The score by TF-IDF that an event must reach to enter a list."""
        return float(self.best_scores(number)[-1])

    def add(self, number: int, rows: CandidateRows) -> None:
        """Add events to a list, each at most once."""
        merged = CandidateRows.concatenate([self._lists[number], rows])
        order = np.lexsort((merged.eids, merged.times, merged.scores))[::-1]
        self._lists[number] = merged.select(order[: self._sizes[number]])

    def score_new(self, score: Callable[[CandidateRows], Floats]) -> None:
        """Let the scorer score those that it has not scored yet. Forgets where they are."""
        ends = np.cumsum(list(map(len, self._lists)))
        merged = CandidateRows.concatenate(self._lists)
        new = np.flatnonzero(np.isnan(merged.final_scores))
        if len(new):
            merged.final_scores[new] = score(merged.select(new))
        merged.segments[:] = -1
        positions = np.split(np.arange(len(merged)), ends[:-1])
        self._lists = [merged.select(numbers) for numbers in positions]

    def update_top(self, top: TopK[EventKey]) -> bool:
        """Rank all candidates. Returns whether the hits have changed."""
        merged = CandidateRows.concatenate(self._lists)
        order = np.lexsort((merged.eids, merged.times, merged.final_scores))[::-1]
        hits: list[RankedHit[EventKey]] = []
        for number in order.tolist():
            score = float(merged.final_scores[number])
            if len(hits) == top.k or score <= 0:
                break
            hit = RankedHit(merged.key(number), score)
            # An event may be in several lists.
            if not hits or hit != hits[-1]:
                hits.append(hit)
        changed = hits != top.hits
        top.hits = hits
        return changed

    def count(self) -> int:
        """The number of candidates."""
        return len({rows.key(number) for rows in self._lists for number in range(len(rows))})

    def to_json(self) -> list[list[tuple[int, str, float]]]:
        """The lists; `restore` is the inverse."""
        stored = []
        for rows in self._lists:
            scores = rows.scores.tolist()
            stored.append([(*rows.key(number), score) for number, score in enumerate(scores)])
        return stored

    def restore(self, stored: Sequence[Sequence[tuple[int, str, float]]]) -> None:
        """Continue from what `to_json` returned. The scorer scores them again."""
        self._lists = [_restore_rows(hits) for hits in stored]
