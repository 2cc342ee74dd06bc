"""Scores past events of an index by a stored model. No I/O."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from archiver.times import Micros
from recall.learning.learned_model import LearnedQuery, PastRows
from recall.learning.pair_model import Feature
from recall.learning.stored_model import StoredModel
from recall.similarity import (
    ContextVector,
    CorpusCounts,
    CorpusEvent,
    Floats,
    GroupedRows,
    Segment,
    SparseRows,
)

_FORECAST_TAGS = 5
# The best past events of each of these tags are candidates.
_CANDIDATE_TAGS = 5
_MAX_TAG_TERMS = 5
_TERM_FEATURES = [Feature.ATTRIBUTES, Feature.TFIDF, Feature.BINARY]
_PLACE_AND_AGE_FEATURES = [Feature.PLACE, Feature.RECENCY]


class LearnedScorer:
    """One new event, compared by a model: a `recall.similarity.EventScorer`."""

    def __init__(self, stored: StoredModel, event: CorpusEvent, place_name: str) -> None:
        self._stored = stored
        self._event = event
        self._place_number = stored.place_number(place_name)
        # The event's terms as the model numbers them; the index has other numbers.
        self._model_context = stored.vocabulary.encode(event.term_counts)
        self._query: LearnedQuery | None = None
        self._prediction = stored.model.predict(self._model_context, stored.vocabulary.attributes)
        self._candidate_tags: list[int] = []
        if self._prediction is not None:
            order = np.argsort(-self._prediction.log_probabilities, kind="stable")
            self._candidate_tags = order[:_CANDIDATE_TAGS].tolist()

    def score_rows(
        self,
        query: ContextVector,
        past: SparseRows,
        counts: CorpusCounts,
        times: npt.NDArray[np.int64],
        eids: npt.NDArray[np.bytes_],
    ) -> Floats:
        """See `recall.similarity.EventScorer`."""
        past_rows = self._past_rows(past, times, eids)
        return self._stored.model.score(self._build_query(query, counts), past_rows)

    @property
    def group_count(self) -> int:
        """See `recall.similarity.EventScorer`. The most probable tags have candidates."""
        return len(self._candidate_tags)

    def group_rows(self, segment: Segment) -> GroupedRows:
        """See `recall.similarity.EventScorer`."""
        heads, rows = self._stored.tagged_rows(segment)
        parts = [rows[heads[tag] : heads[tag + 1]] for tag in self._candidate_tags]
        sizes = np.array([0, *map(len, parts)], dtype=np.int64)
        return GroupedRows(np.cumsum(sizes), np.concatenate([rows[:0], *parts]))

    def explain(
        self,
        query: ContextVector,
        past: SparseRows,
        counts: CorpusCounts,
        ts: Micros,
        eid: str,
    ) -> Mapping[str, Any]:
        """See `recall.similarity.EventScorer`.

        `parts`: what the shared terms, the tag, and place and age add to the logarithm of the odds
        with which the event is drawn. `tag`: of the past event, None if unknown; `tag_terms`: the
        terms of the new event that speak most for it, with what they add to its logarithm.
        """
        learned_query = self._build_query(query, counts)
        past_rows = self._past_rows(
            past, np.array([ts], dtype=np.int64), np.array([eid.encode()], dtype=np.bytes_)
        )
        model = self._stored.model
        contributions = model.pair_features(learned_query, past_rows)[0] * model.pair_model.weights
        tag_id = int(past_rows.tags[0])
        tag = None
        tag_terms: list[tuple[str, float]] = []
        if tag_id >= 0:
            tag = model.tag_model.tags[tag_id]
            tag_terms = self._tag_terms(tag_id)
        return {
            "parts": {
                "terms": float(contributions[_TERM_FEATURES].sum()),
                "resolution": float(contributions[Feature.TAG]),
                "place_and_age": float(contributions[_PLACE_AND_AGE_FEATURES].sum()),
            },
            "tag": tag,
            "tag_terms": tag_terms,
        }

    def _tag_terms(self, tag_id: int) -> list[tuple[str, float]]:
        vocabulary = self._stored.vocabulary
        evidence = self._stored.model.tag_model.term_evidence(
            self._model_context, vocabulary.attributes, tag_id
        )
        best = np.argsort(-evidence, kind="stable")[:_MAX_TAG_TERMS]
        positive = best[evidence[best] > 0]
        terms = vocabulary.decode_terms(self._model_context.terms[positive].tolist())
        return list(zip(terms, evidence[positive].tolist(), strict=True))

    def forecast(self) -> Mapping[str, Any]:
        """The most probable tags of the new event, see `ResolutionForecast`."""
        return asdict(self._stored.forecast(self._event.term_counts, _FORECAST_TAGS))

    def _build_query(self, query: ContextVector, counts: CorpusCounts) -> LearnedQuery:
        if self._query is None or self._query.counts is not counts:
            self._query = self._stored.model.build_query(
                query, self._event.ts, self._place_number, counts, self._prediction
            )
        return self._query

    def _past_rows(
        self,
        contexts: SparseRows,
        times: npt.NDArray[np.int64],
        eids: npt.NDArray[np.bytes_],
    ) -> PastRows:
        tags, place_numbers = self._stored.resolved_events.find(eids)
        return PastRows(contexts, times, place_numbers, tags)
