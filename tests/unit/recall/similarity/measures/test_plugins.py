"""Measures that other packages declare."""

from datetime import timedelta
from importlib.metadata import EntryPoint

import numpy as np
import pytest

from recall.relevance.rankers.ready_contexts import AlertContext, find_similar
from recall.similarity.measures import Measure, plugins
from recall.similarity.measures.corpus import ContextVector, CorpusCounts, Floats, SparseRows
from recall.similarity.measures.measure import OWN_MEASURES


class Overlap:
    """The number of terms that both contexts have."""

    name = "overlap"

    def score_rows(self, query: ContextVector, past: SparseRows, counts: CorpusCounts) -> Floats:
        rows = np.repeat(np.arange(len(past)), np.diff(past.starts))
        return np.bincount(rows, np.isin(past.terms, query.terms), len(past)).astype(float)

    def term_contributions(
        self, query: ContextVector, past: ContextVector, counts: CorpusCounts
    ) -> Floats:
        return np.isin(query.terms, past.terms).astype(float)


unnamed = object()


def load(monkeypatch: pytest.MonkeyPatch, **values: str) -> dict[str, Measure]:
    points = [EntryPoint(name, value, plugins.GROUP) for name, value in values.items()]
    monkeypatch.setattr(plugins, "entry_points", lambda group: points)
    return plugins.load_measures({"tfidf", "learned"})


def test_declared_measure_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    measure = load(monkeypatch, overlap=f"{__name__}:Overlap")["overlap"]
    contexts = [{"a=1": 1}, {"a=1": 1, "b=1": 1}, {"c=1": 1}, {"a=1": 2, "b=1": 1}]
    alerts = [AlertContext(f"e{ts}", "t", ts, terms) for ts, terms in enumerate(contexts)]
    *_, last = find_similar(alerts, timedelta(0), 10, measure)
    assert [(past.event_id, score) for past, score in last.hits] == [("e1", 2), ("e0", 1)]


def test_measures_that_cannot_be_loaded_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    measures = load(
        monkeypatch,
        tfidf=f"{__name__}:Overlap",
        other_name=f"{__name__}:Overlap",
        unnamed=f"{__name__}:unnamed",
        missing="no_such_package:Measure",
    )
    assert measures == {}


def test_declared_measures_are_loaded_when_they_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [EntryPoint("overlap", f"{__name__}:Overlap", plugins.GROUP)]
    requests = []
    monkeypatch.setattr(plugins, "entry_points", lambda group: requests.append(group) or points)
    measures = plugins.Measures(OWN_MEASURES, {"learned"})
    assert measures["tfidf"].name == "tfidf" and requests == []
    assert list(measures) == ["tfidf", "binary", "attributes", "overlap"]
    assert len(measures) == 4 and "overlap" in measures and "learned" not in measures
    assert requests == [plugins.GROUP]
