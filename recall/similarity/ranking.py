"""The k best of what was scored so far, and why each is there (Moirae, CIDR 2007, §3.5)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from recall.similarity.corpus import ContextVector, ContextVectors, CorpusCounts, Floats, Vocabulary
from recall.similarity.measure import Measure

# How an event is named; the newer of two compares as the larger, as do (ts, id) or a position in time order.
Event = TypeVar("Event")


@dataclass(frozen=True, slots=True)
class RankedHit(Generic[Event]):
    """A past event and how alike its context is."""

    event: Event
    score: float


class TopK(Generic[Event]):
    """The k best hits, best first; of equals the newer comes first. Score 0 is no hit.

    Chunks may be added in any order and cut anywhere: the result is that of all events at once.
    """

    def __init__(self, k: int) -> None:
        if k < 1:
            raise ValueError("k is at least 1")
        self.k = k
        self.hits: list[RankedHit[Event]] = []

    @property
    def min_score(self) -> float:
        """What a score must reach, or beat where its event is older, to be among them."""
        return self.hits[-1].score if len(self.hits) == self.k else 0.0

    def add(self, events: Sequence[Event], scores: Floats) -> bool:
        """Add a chunk's events, old to new, none of which was added before; tells whether a hit has changed."""
        rows = top_rows(scores, self.k)
        return self.add_hits([events[row] for row in rows], scores[rows])

    def add_hits(self, events: Sequence[Event], scores: Floats) -> bool:
        """Add some events with scores above 0; tells whether a hit has changed."""
        found = [
            RankedHit(event, float(score)) for event, score in zip(events, scores, strict=True)
        ]
        ranked = sorted([*self.hits, *found], key=_hit_order, reverse=True)[: self.k]
        changed = ranked != self.hits
        self.hits = ranked
        return changed


def _hit_order(hit: RankedHit[Any]) -> tuple[float, Any]:
    return hit.score, hit.event


def top_rows(scores: Floats, k: int) -> npt.NDArray[np.intp]:
    """The rows of the k highest scores above 0, best first; of equals the later row comes first."""
    rows = np.flatnonzero(scores > 0)
    if len(rows) > k:
        found = scores[rows]
        rows = rows[found >= np.partition(found, -k)[-k]]
    return rows[np.lexsort((rows, scores[rows]))[::-1][:k]]


@dataclass(frozen=True, slots=True)
class ScoreExplanation:
    """Why a past event has its score."""

    score: float
    shared_terms: dict[str, float]
    """Terms of both contexts with their share of the score, the largest first; shares sum to 1 where there is one."""
    only_query: list[str]
    only_past: list[str]
    event_count: int
    """E, the corpus size behind the weights."""
    newest_ts: int | None
    """Event time up to which the corpus was counted."""


def explain_score(
    measure: Measure,
    vocabulary: Vocabulary,
    query: ContextVector,
    past: ContextVector,
    counts: CorpusCounts,
) -> ScoreExplanation:
    """Take a score apart, with the counts it was computed with."""
    score = float(measure.score_rows(query, ContextVectors([past]).oldest_rows(1), counts)[0])
    return ScoreExplanation(
        score,
        _term_shares(measure, vocabulary, query, past, counts),
        vocabulary.decode_terms(np.setdiff1d(query.terms, past.terms)),
        vocabulary.decode_terms(np.setdiff1d(past.terms, query.terms)),
        counts.event_count,
        counts.newest_ts,
    )


def _term_shares(
    measure: Measure,
    words: Vocabulary,
    query: ContextVector,
    past: ContextVector,
    counts: CorpusCounts,
) -> dict[str, float]:
    shared = np.isin(query.terms, past.terms)
    parts = measure.term_contributions(query, past, counts)[shared]
    whole = parts.sum()
    shares = parts / whole if whole > 0 else parts
    named = zip(words.decode_terms(query.terms[shared]), shares.tolist(), strict=True)
    return dict(sorted(named, key=lambda pair: (-pair[1], pair[0])))
