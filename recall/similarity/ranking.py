"""The k best hits, and what their scores consist of (Moirae, CIDR 2007, §3.5). No I/O."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from archiver.times import Micros
from recall.similarity.measures import (
    ContextVector,
    ContextVectors,
    CorpusCounts,
    Floats,
    Measure,
    Vocabulary,
)

# An event's key: (ts, ID) or a position in time order. The newer of two events is the larger key.
Event = TypeVar("Event")


@dataclass(frozen=True, slots=True)
class RankedHit(Generic[Event]):
    """A past event with its score."""

    event: Event
    score: float


class TopK(Generic[Event]):
    """The k best hits, best first; equal scores are ordered newest first. Score 0 is no hit.

    Events may be added in parts, in any order: the result is that of adding all at once.
    """

    def __init__(self, k: int) -> None:
        if k < 1:
            raise ValueError(f"k must be at least 1, not {k}")
        self.k = k
        self.hits: list[RankedHit[Event]] = []

    @property
    def min_score(self) -> float:
        """The score an event must reach, or exceed if it is older than the last hit."""
        if len(self.hits) < self.k:
            return 0.0
        return self.hits[-1].score

    def add(self, events: Sequence[Event], scores: Floats) -> bool:
        """Add events, oldest first, each at most once. Returns whether the hits have changed."""
        rows = top_rows(scores, self.k)
        return self.add_hits([events[row] for row in rows], scores[rows])

    def add_hits(self, events: Sequence[Event], scores: Floats) -> bool:
        """Add events with scores above 0. Returns whether the hits have changed."""
        hits = list(self.hits)
        for event, score in zip(events, scores.tolist(), strict=True):
            hits.append(RankedHit(event, score))
        hits = sorted(hits, key=_hit_order, reverse=True)[: self.k]
        changed = hits != self.hits
        self.hits = hits
        return changed


def top_rows(scores: Floats, k: int) -> npt.NDArray[np.intp]:
    """The rows of the k highest scores above 0, best first; of equal scores the later row first."""
    rows = np.flatnonzero(scores > 0)
    if len(rows) > k:
        positive_scores = scores[rows]
        rows = rows[positive_scores >= np.partition(positive_scores, -k)[-k]]
    return rows[np.lexsort((rows, scores[rows]))[::-1][:k]]


@dataclass(frozen=True, slots=True)
class ScoreExplanation:
    """What the score of a past event consists of."""

    score: float
    shared_terms: dict[str, float]
    """Terms of both contexts with their share of the score, largest first; the sum is 1 or 0."""
    only_query: list[str]
    """Terms of the query alone."""
    only_past: list[str]
    """Terms of the past context alone."""
    event_count: int
    """E, with which the terms were weighted."""
    newest_ts: Micros | None
    """Event time up to which the corpus was counted."""


def explain_score(
    measure: Measure,
    vocabulary: Vocabulary,
    query: ContextVector,
    past: ContextVector,
    counts: CorpusCounts,
) -> ScoreExplanation:
    """Explain a score. `counts`: those it was computed with."""
    score = float(measure.score_rows(query, ContextVectors([past]).oldest_rows(1), counts)[0])
    return ScoreExplanation(
        score=score,
        shared_terms=_term_shares(measure, vocabulary, query, past, counts),
        only_query=vocabulary.decode_terms(np.setdiff1d(query.terms, past.terms)),
        only_past=vocabulary.decode_terms(np.setdiff1d(past.terms, query.terms)),
        event_count=counts.event_count,
        newest_ts=counts.newest_ts,
    )


def _term_shares(
    measure: Measure,
    vocabulary: Vocabulary,
    query: ContextVector,
    past: ContextVector,
    counts: CorpusCounts,
) -> dict[str, float]:
    shared = np.isin(query.terms, past.terms)
    shares = measure.term_contributions(query, past, counts)[shared]
    total = shares.sum()
    if total > 0:
        shares = shares / total
    terms = vocabulary.decode_terms(query.terms[shared])
    share_by_term = zip(terms, shares.tolist(), strict=True)
    return dict(sorted(share_by_term, key=lambda pair: (-pair[1], pair[0])))


def _hit_order(hit: RankedHit[Any]) -> tuple[float, Any]:
    return hit.score, hit.event
