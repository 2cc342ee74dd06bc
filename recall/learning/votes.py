"""What the most similar resolved events say about the tag of a new one. No I/O."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from recall.similarity.measures import (
    ContextVector,
    ContextVectors,
    CorpusCounts,
    Floats,
    SparseRows,
)
from recall.similarity.segments import score_by_measures

# Past events whose tags may be voted for: the newest, one of each episode.
_MAX_EVENTS = 300
_VOTERS = 10
# A vote counts the score, divided by the highest, to this power.
_VOTE_POWER = 3.0
# How many votes the frequencies of tags have.
_FREQUENCY_VOTES = 1.0
# `attributes` is the first of the measures that are computed together.
_ATTRIBUTES_COLUMN = 0
_MEASURES = 3


class Votes:
    """Contexts and tags of resolved events, of which the best by `attributes` vote."""

    def __init__(self) -> None:
        self._contexts = ContextVectors()
        self._tags: list[int] = []

    def __len__(self) -> int:
        return min(len(self._tags), _MAX_EVENTS)

    def add(self, context: ContextVector, tag_id: int) -> None:
        """Add the newest event."""
        if len(self._tags) >= 2 * _MAX_EVENTS:
            newest = range(len(self._tags) - _MAX_EVENTS, len(self._tags))
            self._contexts = ContextVectors(self._contexts[row] for row in newest)
            self._tags = self._tags[-_MAX_EVENTS:]
        self._contexts.add(context)
        self._tags.append(tag_id)

    def count(self, context: ContextVector, counts: CorpusCounts, frequencies: Floats) -> Floats:
        """By tag, its share of the votes of the ten best.

        `frequencies`: by tag, the shares of all resolved events, which have a vote too.
        """
        scores = self._score(context, counts)
        best = np.argsort(-scores, kind="stable")[:_VOTERS]
        best = best[scores[best] > 0]
        tags = np.array(self._tags[-_MAX_EVENTS:], dtype=np.int64)
        weights = (scores[best] / scores.max(initial=0.0)) ** _VOTE_POWER
        votes: Floats = _FREQUENCY_VOTES * frequencies
        votes += np.bincount(tags[best], weights, len(frequencies))
        votes /= votes.sum()
        return votes

    def _score(self, context: ContextVector, counts: CorpusCounts) -> Floats:
        rows = self._newest_rows()
        scores = np.zeros((len(rows), _MEASURES))
        width = max(rows.width, int(context.terms.max(initial=-1)) + 1)
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
            width,
            scores,
        )
        rounded: Floats = np.round(scores[:, _ATTRIBUTES_COLUMN], 12)
        return rounded

    def _newest_rows(self) -> SparseRows:
        count = len(self._tags)
        return self._contexts.oldest_rows(count).slice_rows(count - len(self), count)

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The state as arrays; `from_arrays` is the inverse. Terms keep their numbers."""
        rows = self._newest_rows()
        return {
            "starts": rows.starts,
            "terms": rows.terms,
            "counts": rows.counts.astype(np.float32),
            "tags": np.array(self._tags[-_MAX_EVENTS:], dtype=np.int32),
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
