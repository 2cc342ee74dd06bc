"""The past events among which a scorer ranks, when ranking all of them would take too long. No I/O.

Candidates are the best of all events by TF-IDF and, of the events about which the scorer knows more
than their contexts, the best by an estimate of the scorer's score. Which events these are does not
depend on how history is divided into pieces.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from recall.similarity.events import EventKey
from recall.similarity.measures import Floats
from recall.similarity.ranking import TopK

# In a corpus with up to this many events, all are ranked.
RANK_ALL_EVENTS = 20_000
BEST_COUNT = 60
"""The number of candidates that are the best of all events by TF-IDF."""
ESTIMATED_COUNT = 120
"""The number of candidates that are the best by their estimates."""

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class CandidateRows:
    """Some past events, as arrays. `scores`: by TF-IDF, or estimates; `final_scores`: by the scorer."""

    times: Rows
    eids: npt.NDArray[np.bytes_]
    scores: Floats
    final_scores: Floats

    def __len__(self) -> int:
        return len(self.times)

    def keys(self) -> list[EventKey]:
        """The keys of the events."""
        return list(zip(self.times.tolist(), map(bytes.decode, self.eids.tolist()), strict=True))

    def select(self, numbers: npt.NDArray[np.intp] | npt.NDArray[np.bool_]) -> "CandidateRows":
        """Some of the events, in the given order."""
        return CandidateRows(*(array[numbers] for array in self._arrays()))

    def _arrays(self) -> list[npt.NDArray[Any]]:
        return [self.times, self.eids, self.scores, self.final_scores]

    def merge(self, rows: "CandidateRows", count: int) -> "CandidateRows":
        """The `count` best of both by score, each once, best first; of equal ones the newest."""
        columns = zip(self._arrays(), rows._arrays(), strict=True)
        merged = CandidateRows(*map(np.concatenate, columns))
        order = np.lexsort((merged.eids, merged.times, merged.scores))[::-1]
        ordered = merged.select(order)
        differs = (ordered.times[1:] != ordered.times[:-1]) | (
            ordered.eids[1:] != ordered.eids[:-1]
        )
        return ordered.select(np.flatnonzero(np.append(len(ordered) > 0, differs))[:count])

    @classmethod
    def from_json(cls, rows: Sequence[tuple[int, str, float, float]]) -> "CandidateRows":
        """The inverse of `to_json`."""
        times, eids, scores, final_scores = zip(*rows, strict=True) if rows else [()] * 4
        return cls(
            np.array(times, dtype=np.int64),
            np.array([eid.encode() for eid in eids], dtype=np.bytes_),
            np.array(scores, dtype=np.float64),
            np.array(final_scores, dtype=np.float64),
        )

    def to_json(self) -> list[tuple[int, str, float, float]]:
        """Each event as a row of its values."""
        times, eids = zip(*self.keys(), strict=True) if len(self) else ((), ())
        return list(zip(times, eids, self.scores.tolist(), self.final_scores.tolist(), strict=True))


class Candidates:
    """The candidates so far."""

    def __init__(self, k: int) -> None:
        self._k = k
        self._best = CandidateRows.from_json([])
        self._estimated = CandidateRows.from_json([])

    @property
    def min_score(self) -> float:
        """The score by TF-IDF that an event must reach to be one of the best of all events."""
        return float(self._best.scores[-1]) if len(self._best) == BEST_COUNT else 0.0

    @property
    def min_estimate(self) -> float:
        """The estimate that an event must reach to be one of the best by estimates."""
        is_full = len(self._estimated) == ESTIMATED_COUNT
        return float(self._estimated.scores[-1]) if is_full else -np.inf

    def add_best(self, rows: CandidateRows) -> None:
        """Add events by TF-IDF, of which the best are kept."""
        self._best = self._best.merge(rows, BEST_COUNT)

    def add_estimated(self, rows: CandidateRows) -> None:
        """Add events by their estimates, of which the best are kept."""
        self._estimated = self._estimated.merge(rows, ESTIMATED_COUNT)

    def merge(self, stored: Mapping[str, Any]) -> None:
        """Add the candidates of other events, as `to_json` returned them."""
        self.add_best(CandidateRows.from_json(stored["best"]))
        self.add_estimated(CandidateRows.from_json(stored["estimated"]))

    def update_top(self, top: TopK[EventKey]) -> bool:
        """Rank all candidates. Returns whether the hits have changed."""
        score_by_key: dict[EventKey, float] = {}
        for rows in (self._best, self._estimated):
            high = rows.select(_high_numbers(rows.final_scores, self._k))
            score_by_key.update(zip(high.keys(), high.final_scores.tolist(), strict=True))
        hits: TopK[EventKey] = TopK(self._k)
        hits.add_hits(list(score_by_key), np.array(list(score_by_key.values())))
        changed = hits.hits != top.hits
        top.hits = hits.hits
        return changed

    def count(self) -> int:
        """The number of candidates."""
        return len({*self._best.keys(), *self._estimated.keys()})

    def to_json(self) -> dict[str, Any]:
        """The state; `restore` is the inverse."""
        return {"best": self._best.to_json(), "estimated": self._estimated.to_json()}

    def restore(self, stored: Mapping[str, Any]) -> None:
        """Continue from what `to_json` returned."""
        self._best = CandidateRows.from_json([row[:4] for row in stored["best"]])
        # States of version 0.1.0 have none.
        self._estimated = CandidateRows.from_json(stored.get("estimated", ()))


def _high_numbers(scores: Floats, k: int) -> npt.NDArray[np.intp]:
    """The numbers of events that may be among k hits."""
    least = np.nextafter(0, 1)
    if len(scores) > k:
        least = max(least, np.partition(scores, -k)[-k])
    return np.flatnonzero(scores >= least)
