"""Past alerts that are similar to a state which is described by terms. No I/O."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from recall.relevance.rankers.ready_contexts import AlertContext
from recall.similarity import TopK, explain_score
from recall.similarity.measures import Corpus, Measure


class DescribedHit(NamedTuple):
    """A past alert. `shared`: terms of both with their share of the score, largest first.

    `only_described`, `only_past`: terms of one of them.
    """

    alert: AlertContext
    score: float
    shared: list[tuple[str, float]]
    only_described: list[str]
    only_past: list[str]


def rank_described(
    alerts: Iterable[AlertContext], terms: Sequence[str], k: int, measure: Measure
) -> list[DescribedHit]:
    """The k alerts with the highest scores above 0, best first.

    The state counts in E and C_k as the event after all others would.
    """
    ordered = sorted(alerts, key=lambda alert: alert.ts)
    if not ordered:
        return []
    corpus = Corpus()
    for alert in ordered:
        corpus.add(alert.ts, alert.term_counts)
    state = corpus.add(ordered[-1].ts, Counter(terms))
    counts = corpus.counts()
    top: TopK[int] = TopK(k)
    scores = measure.score_rows(state, corpus.contexts.oldest_rows(len(ordered)), counts)
    top.add(range(len(ordered)), scores)
    hits = []
    for hit in top.hits:
        past = corpus.contexts[hit.event]
        explained = explain_score(measure, corpus.vocabulary, state, past, counts)
        shared = [(term, share) for term, share in explained.shared_terms.items() if share > 0]
        hits.append(
            DescribedHit(
                ordered[hit.event], hit.score, shared, explained.only_query, explained.only_past
            )
        )
    return hits
