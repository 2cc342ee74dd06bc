"""Compares incidents: the context of an incident is that of its alerts. No I/O."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from archiver.times import Micros
from moirae.topology import to_location
from recall.similarity import count_terms
from recall.similarity.measures import MEASURES, Corpus

_MEASURE = MEASURES["tfidf"]
_SHOWN_TERMS = 8


@dataclass(frozen=True)
class IncidentContext:
    """The terms of an incident, each with the number of its alerts that have it. `start`: event time."""

    id: UUID
    start: Micros
    terms: Mapping[str, int]


@dataclass(frozen=True)
class SimilarIncident:
    """A past incident. `score`: cosine of TF-IDF. `shared`: terms, those that add most first."""

    id: UUID
    score: float
    shared: Sequence[str]


def list_terms(rule: str, key: Mapping[str, Any], contexts: Mapping[str, Any]) -> Sequence[str]:
    """The terms of an alert in the context of its incident: rule, key, and all of its contexts."""
    location = to_location(key)
    terms = [f"rule={rule}", *(f"{name}={value}" for name, value in location.items())]
    return list(dict.fromkeys([*terms, *count_terms(contexts, contexts)]))


def make_context(
    incident: UUID, start: Micros, terms_of_alerts: Iterable[Iterable[str]]
) -> IncidentContext:
    """The context of an incident from the terms of its alerts."""
    counts = Counter(term for terms in terms_of_alerts for term in terms)
    return IncidentContext(incident, start, counts)


def rank_similar(
    incident: IncidentContext, past: Iterable[IncidentContext], limit: int
) -> list[SimilarIncident]:
    """The past incidents most like one, best first; those without a common term are left out.

    Terms that few incidents have weigh more; the incident itself counts as one of them.
    """
    corpus = Corpus()
    ordered = sorted(past, key=lambda entry: (entry.start, entry.id))
    for entry in ordered:
        corpus.add(entry.start, entry.terms)
    query = corpus.add(max([incident.start, *corpus.times[-1:]]), incident.terms)
    counts = corpus.counts()
    scores = _MEASURE.score_rows(query, corpus.contexts.oldest_rows(len(ordered)), counts)
    best = sorted(range(len(ordered)), key=lambda row: (-scores[row], -row))[:limit]
    similar = []
    for row in best:
        if scores[row] > 0:
            shares = _MEASURE.term_contributions(query, corpus.contexts[row], counts)
            order = (-shares).argsort(kind="stable")[:_SHOWN_TERMS]
            terms = corpus.vocabulary.decode_terms(query.terms[order[shares[order] > 0]].tolist())
            similar.append(SimilarIncident(ordered[row].id, float(scores[row]), terms))
    return similar
