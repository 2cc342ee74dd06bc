"""The brute-force reference of real alerts, to the last event and the ninth digit.

The data lies beside the checkout, or where MOIRAE_DATA says; without it these tests are skipped.
"""

import csv
import gzip
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.feature_extraction import DictVectorizer
from sklearn.metrics.pairwise import cosine_similarity

from moirae.feedback.context_files import read_alerts, read_groups
from recall.relevance.ready_contexts import AlertContext, SimilarAlerts, find_similar
from recall.similarity.measure import MEASURES

DATA = Path(os.environ.get("MOIRAE_DATA") or Path(__file__).parents[3] / "shared" / "data")
K = 10


@dataclass(frozen=True)
class Scenario:
    """How a reference was made: its gap, or None for leave-one-out over incidents."""

    gap: timedelta | None
    alerts: str | None = None
    """The scenario that has its alerts."""


SCENARIOS = {
    "bgl_incident": Scenario(timedelta(hours=6)),
    "itsm_opened": Scenario(timedelta(hours=1)),
    "itsm_problem": Scenario(timedelta(hours=1), "itsm_opened"),
    "lanl_nodefail": Scenario(timedelta(hours=6)),
    "nezha_incident": Scenario(None),
    "nezha_incident_metrics_only": Scenario(None),
    "nezha_pod": Scenario(None),
    "petshop_slo": Scenario(None),
}
LARGE = ["itsm_opened", "lanl_nodefail"]
SAMPLE = 300


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_reference_is_matched(name: str) -> None:
    reference = reference_of(name)
    step = max(1, len(reference) // SAMPLE) if name in LARGE else 1
    compare(name, dict(list(reference.items())[::step]))


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_the_whole_reference_is_matched(name: str) -> None:
    compare(name, reference_of(name))


def compare(name: str, reference: dict[str, list[tuple[str, float]]]) -> None:
    """Our answers against the stored ones, and against what scikit-learn makes of the same alerts."""
    scenario, alerts = SCENARIOS[name], alerts_of(name)
    loo = scenario.gap is None
    found = {
        answer.query.event_id: answer
        for answer in find_similar(
            alerts, scenario.gap or timedelta(0), K, MEASURES["tfidf"], loo, event_ids=reference
        )
    }
    independent = Independent(alerts, scenario.gap)
    for query, expected in reference.items():
        hits = [(past.event_id, score) for past, score in found[query].hits]
        assert [event for event, _ in hits] == [event for event, _ in expected], query
        assert [score for _, score in hits] == pytest.approx(
            [score for _, score in expected], abs=1e-9
        ), query
        independent.check(found[query])


class Independent:
    """The same with scikit-learn, and every candidate scored."""

    def __init__(self, alerts: list[AlertContext], gap: timedelta | None) -> None:
        self.gap = gap
        ordered = sorted(alerts, key=lambda alert: (alert.event_type, alert.ts))
        kinds = groupby(ordered, key=lambda alert: alert.event_type)
        self.kinds = {kind: list(of_kind) for kind, of_kind in kinds}
        self.matrices = {kind: self.matrix(of_kind) for kind, of_kind in self.kinds.items()}
        self.places = {
            a.event_id: i for of_kind in self.kinds.values() for i, a in enumerate(of_kind)
        }

    @staticmethod
    def matrix(alerts: list[AlertContext]) -> Any:
        return (
            DictVectorizer()
            .fit_transform([alert.term_counts or {"": 0} for alert in alerts])
            .tocsr()
        )

    def check(self, answer: SimilarAlerts) -> None:
        query, place = answer.query, self.places[answer.query.event_id]
        kind, matrix = self.kinds[query.event_type], self.matrices[query.event_type]
        counted = matrix if self.gap is None else matrix[: place + 1]
        held = np.asarray((counted > 0).sum(axis=0)).ravel()
        idf = np.log10(counted.shape[0] / np.maximum(held, 1))
        weighted = counted.multiply(idf).tocsr()
        scores = cosine_similarity(weighted[[place]], weighted).ravel()
        scores[[not self.candidate(query, other) for other in kind[: len(scores)]]] = 0
        ours = [score for _, score in answer.hits]
        best = np.sort(scores[scores > 1e-9])[::-1][:K]
        assert ours == pytest.approx(best.tolist(), abs=1e-9), query.event_id
        assert ours == pytest.approx(
            [scores[self.places[past.event_id]] for past, _ in answer.hits], abs=1e-9
        )

    def candidate(self, query: AlertContext, other: AlertContext) -> bool:
        if self.gap is None:
            return other is not query and (other.group is None or other.group != query.group)
        return other.ts <= query.ts - self.gap // timedelta(microseconds=1)


def folder_of(name: str) -> Path:
    folder = DATA / "scenarios" / name
    if not folder.is_dir():
        pytest.skip(
            f"no reference data: {folder} is not there; MOIRAE_DATA names the folder that holds `scenarios`"
        )
    return folder


def alerts_of(name: str) -> list[AlertContext]:
    """The alerts; left out is not one alert, but all of its incident (`group` of the labels)."""
    folder = folder_of(SCENARIOS[name].alerts or name)
    alerts = list(read_alerts(folder / "alerts.jsonl.gz"))
    if SCENARIOS[name].gap is not None:
        return alerts
    groups = read_groups(folder / "labels.csv.gz")
    return [replace(alert, group=groups.get(alert.event_id)) for alert in alerts]


def reference_of(name: str) -> dict[str, list[tuple[str, float]]]:
    """The stored answers of each judged query, best first; none for queries without a score above 0."""
    found: dict[str, list[tuple[str, float]]] = {
        row["query"]: [] for row in rows_of(name, "qrels.csv.gz")
    }
    for row in rows_of(name, "top10.csv.gz"):
        if row["method"] == "tfidf_online":
            found[row["query"]].append((row["event"], float(row["cosine"])))
            assert len(found[row["query"]]) == int(row["rank"])
    return found


def rows_of(name: str, file: str) -> Iterator[dict[str, str]]:
    with gzip.open(folder_of(name) / file, "rt", newline="") as lines:
        yield from csv.DictReader(lines)
