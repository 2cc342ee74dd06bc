"""The past events among which a scorer ranks, when ranking all of them would take too long. No I/O.

Candidates are the events that the scorer names, such as those with probable tags, and the best of
all events by TF-IDF. Which events these are does not depend on how history is divided into pieces.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from recall.similarity.events import EventKey
from recall.similarity.measures import Floats
from recall.similarity.ranking import RankedHit, TopK

# In a corpus with up to this many events, all are ranked.
RANK_ALL_EVENTS = 20_000
BEST_COUNT = 100
"""The number of candidates that are the best of all events."""

Rows = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class CandidateRows:
    """Some past events, as arrays. `scores`: by TF-IDF; `final_scores`: by the scorer.

    `named`: whether the scorer names them too.
    """

    times: Rows
    eids: npt.NDArray[np.bytes_]
    scores: Floats
    final_scores: Floats
    named: Mask

    def __len__(self) -> int:
        return len(self.times)

    def key(self, number: int) -> EventKey:
        """The key of an event."""
        return int(self.times[number]), self.eids[number].decode()

    def select(self, numbers: npt.NDArray[np.intp]) -> "CandidateRows":
        """Some of the events, in the given order."""
        return CandidateRows(*(array[numbers] for array in self._arrays()))

    def _arrays(self) -> list[npt.NDArray[Any]]:
        return [self.times, self.eids, self.scores, self.final_scores, self.named]

    @staticmethod
    def concatenate(parts: "Sequence[CandidateRows]") -> "CandidateRows":
        """The events of all parts."""
        columns = zip(*(part._arrays() for part in parts), strict=True)
        return CandidateRows(*map(np.concatenate, columns))

    @classmethod
    def from_json(cls, rows: Sequence[tuple[int, str, float, float, bool]]) -> "CandidateRows":
        """The inverse of `to_json`."""
        times, eids, scores, final_scores, named = zip(*rows, strict=True) if rows else [()] * 5
        return cls(
            np.array(times, dtype=np.int64),
            np.array([eid.encode() for eid in eids], dtype=np.bytes_),
            np.array(scores, dtype=np.float64),
            np.array(final_scores, dtype=np.float64),
            np.array(named, dtype=np.bool_),
        )

    def to_json(self) -> list[tuple[int, str, float, float, bool]]:
        """Each event as a row of its values."""
        eids = [eid.decode() for eid in self.eids.tolist()]
        columns = (self.times, self.scores, self.final_scores, self.named)
        times, scores, final_scores, named = (column.tolist() for column in columns)
        return list(zip(times, eids, scores, final_scores, named, strict=True))


class Candidates:
    """The candidates so far. Of those that the scorer names, only the k best are kept."""

    def __init__(self, k: int) -> None:
        self._best = CandidateRows.from_json([])
        self._named: TopK[EventKey] = TopK(k)
        self._named_count = 0

    @property
    def min_score(self) -> float:
        """The score by TF-IDF that an event must reach to be one of the best of all events."""
        return float(self._best.scores[-1]) if len(self._best) == BEST_COUNT else 0.0

    def add_best(self, rows: CandidateRows) -> None:
        """Add events, each at most once, of which the best are kept."""
        merged = CandidateRows.concatenate([self._best, rows])
        order = np.lexsort((merged.eids, merged.times, merged.scores))[::-1]
        self._best = merged.select(order[:BEST_COUNT])

    def add_named(self, scores: Floats, key_of: Callable[[int], EventKey]) -> None:
        """Add events that the scorer names, each at most once.

        `scores`: by the scorer; `key_of`: the key of an event by its number.
        """
        self._named_count += len(scores)
        high = _high_numbers(scores, self._named)
        self._named.add_hits(list(map(key_of, high)), scores[high])

    def update_top(self, top: TopK[EventKey]) -> bool:
        """Rank all candidates. Returns whether the hits have changed."""
        hits: TopK[EventKey] = TopK(top.k)
        hits.hits = [RankedHit(hit.event, hit.score) for hit in self._named.hits]
        unnamed_scores = np.where(self._best.named, 0, self._best.final_scores)
        high = _high_numbers(unnamed_scores, hits)
        hits.add_hits(list(map(self._best.key, high)), unnamed_scores[high])
        changed = hits.hits != top.hits
        top.hits = hits.hits
        return changed

    def count(self) -> int:
        """The number of candidates."""
        return self._named_count + int(np.count_nonzero(~self._best.named))

    def to_json(self) -> dict[str, Any]:
        """The state; `restore` is the inverse."""
        hits = [(*hit.event, hit.score) for hit in self._named.hits]
        return {"best": self._best.to_json(), "named": hits, "named_count": self._named_count}

    def restore(self, stored: Mapping[str, Any]) -> None:
        """Continue from what `to_json` returned."""
        self._best = CandidateRows.from_json(stored["best"])
        self._named.hits = [RankedHit((ts, eid), score) for ts, eid, score in stored["named"]]
        self._named_count = stored["named_count"]


def _high_numbers(scores: Floats, top: TopK[EventKey]) -> list[int]:
    """The numbers of events that may be hits. The others need not be compared by their IDs."""
    min_score = max(top.min_score, np.nextafter(0, 1))
    if len(scores) > top.k:
        min_score = max(min_score, np.partition(scores, -top.k)[-top.k])
    numbers: list[int] = np.flatnonzero(scores >= min_score).tolist()
    return numbers
