"""Scores past events of an index by a stored model. No I/O."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from recall.learning.learned_model import UNKNOWN_TAG, LearnedQuery, PastRows
from recall.learning.pair_model import TERM_FEATURES, Feature
from recall.learning.stored_model import StoredModel
from recall.similarity import CorpusEvent, EventForecast, ScoredRows
from recall.similarity.measures import ContextVector, CorpusCounts
from recall.similarity.segments import KnownRows, RowsOfSegment, Segment, gather_rows

_FORECAST_TAGS = 5
_MAX_TAG_TERMS = 5
# Estimates that are mathematically equal tie.
_ESTIMATE_DIGITS = 5
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
        self._tag_forecast = stored.forecast_tags(
            self._model_context, stored.log_probabilities(self._model_context)
        )

    def score_rows(
        self, query: ContextVector, counts: CorpusCounts, parts: Sequence[RowsOfSegment]
    ) -> ScoredRows:
        """See `recall.similarity.EventScorer`."""
        model, past_rows = self._stored.model, self._past_rows(parts)
        learned_query = self._build_query(query, counts)
        features = model.pair_features(learned_query, past_rows)
        scores = model.score_features(learned_query, past_rows, features)
        tfidf_scores = features[:, Feature.TFIDF]
        estimates = tfidf_scores + model.estimate_offsets(learned_query, past_rows.facts)
        estimates[past_rows.facts.tags == UNKNOWN_TAG] = -np.inf
        return ScoredRows(scores, tfidf_scores, np.round(estimates, _ESTIMATE_DIGITS))

    def find_known_rows(
        self, query: ContextVector, counts: CorpusCounts, segment: Segment
    ) -> KnownRows:
        """See `recall.similarity.EventScorer`: those of resolved events."""
        rows, facts, _ = self._stored.resolved_rows(segment)
        if not len(rows):
            return KnownRows(rows, np.zeros(0))
        learned_query = self._build_query(query, counts)
        return KnownRows(rows, self._stored.model.estimate_offsets(learned_query, facts))

    def explain(
        self, query: ContextVector, counts: CorpusCounts, segment: Segment, row: int
    ) -> Mapping[str, Any]:
        """See `recall.similarity.EventScorer`.

        `parts`: what the shared terms, the tag, and place and age add to what the score is made of,
        see `to_score`. `tag`: of the past event, None if unknown; `tag_terms`: the
        terms of the new event that speak most for it, with what they add to its logarithm.
        """
        learned_query = self._build_query(query, counts)
        past_rows = self._past_rows([RowsOfSegment(segment, np.array([row]))])
        model = self._stored.model
        contributions = model.pair_features(learned_query, past_rows)[0] * model.pair_model.weights
        tag_id = int(past_rows.facts.tags[0])
        tag = None
        tag_terms: list[tuple[str, float]] = []
        if tag_id >= 0:
            tag = model.tag_model.tags[tag_id]
            tag_terms = self._tag_terms(tag_id)
        return {
            "parts": {
                "terms": float(contributions[:TERM_FEATURES].sum()),
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

    def forecast(self) -> EventForecast:
        """The most probable tags of the new event, see `ResolutionForecast`."""
        model = self._stored.model
        labels = self._tag_forecast.probabilities, self._tag_forecast.new_tag
        return EventForecast(
            model.make_forecast(*labels, _FORECAST_TAGS).to_json(),
            model.shares_of_labels(*labels).to_json(),
        )

    def _build_query(self, query: ContextVector, counts: CorpusCounts) -> LearnedQuery:
        if self._query is None or self._query.counts is not counts:
            self._query = self._stored.model.build_query(
                query, self._event.ts, self._place_number, counts, self._tag_forecast.shares
            )
        return self._query

    def _past_rows(self, parts: Sequence[RowsOfSegment]) -> PastRows:
        times, positions = [], []
        for segment, rows in parts:
            times.append(segment.arrays["ts"][rows])
            positions.append(self._stored.resolved_rows(segment).position_by_row[rows])
        facts = self._stored.resolved_events.find_facts(
            np.concatenate(positions), np.concatenate(times)
        )
        return PastRows(gather_rows(parts), facts)
