"""Contexts that read the answers of recalls: hybrid contexts. No I/O.

The contexts of an event are settled together, when the recalls that they name have ended. So these
recalls must end, and must not wait for a context that waits for them.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from moirae.rules.alert_table import ALERTS
from moirae.rules.model import AlertSpec
from moirae.rules.questions import HistoryRecall, QuerySpec, SimilarRecall
from recall.errors import RecallError
from recall.query import tables_in, tables_used


class ContextProblem(NamedTuple):
    """Why a context cannot read a recall. `section`: context or surroundings."""

    section: str
    name: str
    message: str


def recalls_named_in(query: QuerySpec, spec: AlertSpec) -> frozenset[str]:
    """The recalls that the query of a context or surrounding names as tables."""
    candidates = [name for name in spec.recall if name in query.sql.lower()]
    if not candidates:
        return frozenset()
    try:
        return tables_used(query.sql, candidates)
    except RecallError:  # reported when the query is checked
        return frozenset()


def find_hybrid_contexts(spec: AlertSpec) -> dict[str, frozenset[str]]:
    """The contexts and surroundings that read recalls, with the names of these."""
    hybrid: dict[str, frozenset[str]] = {}
    for name, query in (*spec.context.items(), *spec.surroundings.items()):
        recalls = recalls_named_in(query, spec)
        if recalls:
            hybrid[name] = recalls
    return hybrid


def find_hybrid_problems(spec: AlertSpec) -> Iterator[ContextProblem]:
    """Yield why contexts cannot read the recalls that they name."""
    hybrid = find_hybrid_contexts(spec)
    sections: Mapping[str, Mapping[str, QuerySpec]] = {
        "context": spec.context,
        "surroundings": spec.surroundings,
    }
    for section, queries in sections.items():
        for name in queries:
            for recall_name in sorted(hybrid.get(name, ())):
                message = _find_problem(spec, hybrid, name, recall_name)
                if message is not None:
                    yield ContextProblem(section, name, message)


def _find_problem(
    spec: AlertSpec, hybrid: Mapping[str, frozenset[str]], name: str, recall_name: str
) -> str | None:
    recall = spec.recall[recall_name]
    if isinstance(recall, SimilarRecall):
        return f"{recall_name} is a similarity recall; a context can read SQL recalls only"
    assert isinstance(recall, HistoryRecall)
    try:
        read_contexts = tables_used(recall.sql, hybrid.keys())
    except RecallError:  # reported when the recall is checked
        return None
    if read_contexts:
        cycle = " → ".join([name, recall_name, *sorted(read_contexts)])
        return f"cycle: {cycle}; a recall that a context reads must not read such a context"
    if ALERTS in tables_in(recall.sql):
        return f"{recall_name} reads alerts; name alerts in the context itself"
    if recall.range is None:
        return f"set range of the recall {recall_name}: a context waits until it has ended"
    return None
