"""Small corpora for tests of similarity, among them the example of the paper (CIDR 2007, §3.5)."""

from collections.abc import Iterable

from recall.relevance.rankers.ready_contexts import AlertContext
from recall.similarity.measures.corpus import Corpus

HOUR = 3_600_000_000  # microseconds

# The example of the paper.
E1 = {"user=u1": 1, "proc=p1": 1}
E2 = {"user=u2": 1, "user=u3": 1, "proc=p2": 1, "proc=p3": 1}
E3 = {"user=u2": 1, "proc=p1": 1, "proc=p3": 1}


def make_alerts(
    *contexts: dict[str, int], hours: Iterable[int] | None = None
) -> list[AlertContext]:
    """Alerts e1, e2, ... of one type, by default an hour apart."""
    alerts = []
    for number, hour in enumerate(hours or range(len(contexts))):
        alerts.append(AlertContext(f"e{number + 1}", "t", hour * HOUR, contexts[number]))
    return alerts


def make_corpus(*contexts: dict[str, int]) -> Corpus:
    """Events at times 0, 1, ..."""
    corpus = Corpus()
    for ts, term_counts in enumerate(contexts):
        corpus.add(ts, term_counts)
    return corpus


def pairs(rows: Iterable[tuple[str, int, str, float]]) -> list[tuple[str, str]]:
    """Query and event of rows (query, rank, event, score)."""
    return [(query, event) for query, _, event, _ in rows]
