"""What the most similar resolved events say about the tag of a new one. No I/O."""

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from recall.learning.fixed_voters import FixedVoters
from recall.similarity.measures import (
    ContextVector,
    ContextVectors,
    CorpusCounts,
    Floats,
    SparseRows,
)
from recall.similarity.segments import score_by_measures

# Past events whose tags may be voted for: the newest, one of each episode.
_MAX_EVENTS = 1000
_MAX_TERMS = 20_000  # of all their contexts: comparing them takes half a millisecond
_VOTERS = 10
# A vote counts the score, divided by the highest, to this power.
_VOTE_POWER = 3.0
# How many votes the frequencies of tags have: beside ten voters, and beside the most similar.
_FREQUENCY_VOTES = 1.0
_FREQUENCY_VOTES_OF_NEAREST = 0.3
# `attributes` is the first of the measures that are computed together.
_ATTRIBUTES_COLUMN = 0
_MEASURES = 3


class Votes:
    """Contexts and tags of resolved events, of which the best by `attributes` vote."""

    def __init__(self) -> None:
        self._contexts = ContextVectors()
        self._tags = np.zeros(0, dtype=np.int64)
        # The newest events, that are not among these yet: adding them together is much faster.
        self._waiting: deque[tuple[ContextVector, int]] = deque(maxlen=_MAX_EVENTS)

    def add(self, context: ContextVector, tag_id: int) -> None:
        """Add the newest event."""
        self._waiting.append((context, tag_id))

    def _add_waiting(self) -> None:
        if not self._waiting:
            return
        if len(self._tags) + len(self._waiting) > 2 * _MAX_EVENTS:
            newest = range(len(self._tags) - _MAX_EVENTS, len(self._tags))
            self._contexts = ContextVectors(self._contexts[row] for row in newest)
            self._tags = self._tags[newest.start :]
        self._contexts.extend([context for context, _ in self._waiting])
        self._tags = np.append(self._tags, [tag for _, tag in self._waiting])
        self._waiting.clear()

    def count(self, context: ContextVector, counts: CorpusCounts, frequencies: Floats) -> Floats:
        """Two rows by tag: its share of the votes of the ten best, and of those of the best alone.

        Events as similar as the best have its vote together. `frequencies`: by tag, the shares of
        all resolved events, which have votes too.
        """
        return self.share(score_by_attributes(context, counts, self._newest_rows()), frequencies)

    def fix(self, counts: CorpusCounts) -> FixedVoters:
        """The events that may be voted for. Holds as long as none is added."""
        return FixedVoters(self._newest_rows(), counts)

    def share(self, scores: Floats, frequencies: Floats) -> Floats:
        """`count`, with the scores of the events that may be voted for."""
        tags = self._tags[len(self._tags) - len(scores) :]
        best = _find_best(scores)
        votes = np.outer([_FREQUENCY_VOTES, _FREQUENCY_VOTES_OF_NEAREST], frequencies)
        if len(best):
            highest = scores[best[0]]
            weights = (scores[best] / highest) ** _VOTE_POWER
            votes[0] += np.bincount(tags[best], weights, len(frequencies))
            nearest = np.bincount(tags[scores == highest], minlength=len(frequencies))
            votes[1] += nearest / nearest.sum()
        shares: Floats = votes / votes.sum(axis=1, keepdims=True)
        return shares

    def _newest_rows(self) -> SparseRows:
        """Those that may be voted for."""
        self._add_waiting()
        count = len(self._tags)
        rows = self._contexts.oldest_rows(count)
        first = int(np.searchsorted(rows.starts, rows.starts[-1] - _MAX_TERMS))
        return rows.slice_rows(max(first, count - _MAX_EVENTS, 0), count)

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The state as arrays; `from_arrays` is the inverse. Terms keep their numbers."""
        rows = self._newest_rows()
        return {
            "starts": rows.starts,
            "terms": rows.terms,
            "counts": rows.counts.astype(np.float32),
            "tags": self._tags[len(self._tags) - len(rows) :].astype(np.int32),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> "Votes":
        """Restore what `to_arrays` returned."""
        votes = cls()
        starts, terms = arrays["starts"], arrays["terms"]
        counts = arrays["counts"].astype(np.float64)
        for row, tag in enumerate(arrays["tags"].tolist()):
            part = slice(int(starts[row]), int(starts[row + 1]))
            votes.add(ContextVector(terms[part], counts[part]), tag)
        return votes


def score_by_attributes(context: ContextVector, counts: CorpusCounts, rows: SparseRows) -> Floats:
    """The scores of a few rows by `attributes`; much faster than the measure, which is for many."""
    scores = np.zeros((len(rows), _MEASURES))
    score_by_measures(
        context.terms,
        context.counts,
        rows.starts,
        rows.terms,
        rows.counts,
        float(max(counts.event_count, 1)),
        counts.document_frequencies,
        counts.attributes,
        int(counts.attributes.max(initial=-1)) + 1,
        max(rows.width, int(context.terms.max(initial=-1)) + 1),
        scores,
    )
    rounded: Floats = np.round(scores[:, _ATTRIBUTES_COLUMN], 12)
    return rounded


def _find_best(scores: Floats) -> npt.NDArray[np.intp]:
    """The rows of the highest scores above 0, best first; of equal ones the newest."""
    least = 0.0
    if len(scores) > _VOTERS:
        least = np.partition(scores, -_VOTERS)[-_VOTERS]
    rows = np.flatnonzero((scores >= least) & (scores > 0))
    best: npt.NDArray[np.intp] = rows[np.lexsort((-rows, -scores[rows]))][:_VOTERS]
    return best
