"""Answers equal a brute-force reference, to the last event and the ninth digit.

One reference is of a generated scenario, by the plain formulas in pure Python; the others are of
real alerts. The data of real alerts lies beside the checkout, or where MOIRAE_DATA says; without
it their tests are skipped.
"""

import csv
import gzip
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from sklearn.feature_extraction import DictVectorizer
from sklearn.metrics.pairwise import cosine_similarity
from typer.testing import CliRunner

from moirae.cli import app
from moirae.feedback.context_files import read_alerts, read_groups
from recall.relevance.rankers.ready_contexts import AlertContext, SimilarAlerts, find_similar
from recall.similarity.measures import MEASURES
from tests.sampled import every
from tests.similarity_scenario import (
    Answers,
    ScenarioEvent,
    cosine,
    expected_answers,
    is_candidate,
    scenario,
    weights,
)

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
SAMPLE = 60

# The worked example of the paper (§3.5, Fig. 5).
E1 = {"user=u1": 1, "proc=p1": 1}
E2 = {"user=u2": 1, "user=u3": 1, "proc=p2": 1, "proc=p3": 1}
E3 = {"user=u2": 1, "proc=p1": 1, "proc=p3": 1}
# Of the generated scenario: gap, whether events are in groups, leave-one-out.
GENERATED = [
    (timedelta(hours=6), False, False),
    (timedelta(0), False, False),
    (timedelta(hours=1), True, False),
    (timedelta(0), True, True),
]


def test_reference_formulas_give_the_scores_of_the_paper() -> None:
    """The paper prints 0, 0.203 and 0.287, because it rounds the logarithms to two digits on the
    way.
    """

    def rounded(value: float) -> float:
        return round(math.log10(value), 2)

    for log10, scores in ((rounded, (0, 0.203, 0.287)), (math.log10, (0, 0.1999, 0.2827))):
        first, second, third = (weights(context, [E1, E2, E3], log10) for context in (E1, E2, E3))
        computed = [cosine(first, second), cosine(first, third), cosine(second, third)]
        assert computed == pytest.approx(scores, abs=5e-4 if log10 is rounded else 5e-5)


def test_generated_scenario_covers_the_cases_of_the_formulas() -> None:
    events = scenario(1)
    gap = GENERATED[0][0]
    top, every = expected_answers(events, gap, K)
    cut_ties = [q for q, hits in every.items() if len(hits) > K and hits[K - 1][1] == hits[K][1]]
    assert len(cut_ties) > 10, (
        "equal scores on both sides of the last rank: the newer event is returned"
    )
    assert sum(0 < len(hits) < K for hits in top.values()) > 5
    pairs = [(q, past) for q in events for past in events if q.event_type == past.event_type]
    candidates = [(q, past) for q, past in pairs if is_candidate(q, past, gap, False)]
    assert len(candidates) > sum(map(len, every.values())) + 100, "candidates with score 0"
    assert sum(past.ts == q.ts and past is not q for q, past in pairs) > 10, (
        "events of the same time"
    )
    without_gap, _ = expected_answers(events, timedelta(0), K)
    assert sum(without_gap[query] != top[query] for query in top) > 20, "the gap changes answers"
    assert any(not event.facts for event in events)
    assert max(count for event in events for count in event.facts.values()) > 1
    assert [event.ts for event in events] != sorted(event.ts for event in events), (
        "the file is not in order of time"
    )


@pytest.mark.parametrize(("gap", "grouped", "leave_one_out"), GENERATED)
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_answers_for_the_generated_scenario_equal_the_reference(
    seed: int, gap: timedelta, grouped: bool, leave_one_out: bool
) -> None:
    events = scenario(seed, grouped)
    alerts = [
        AlertContext(
            event.event_id,
            event.event_type,
            round(event.ts.timestamp() * 1e6),
            event.facts,
            event.group,
        )
        for event in events
    ]
    reference, _ = expected_answers(events, gap, K, leave_one_out)
    answers = {
        answer.query.event_id: [(past.event_id, score) for past, score in answer.hits]
        for answer in find_similar(alerts, gap, K, MEASURES["tfidf"], leave_one_out)
    }
    assert answers.keys() == reference.keys()
    assert_equal_answers(answers, reference)


@pytest.mark.parametrize(("gap", "grouped", "leave_one_out"), every(3, GENERATED))
def test_similarity_run_equals_the_reference(
    tmp_path: Path, gap: timedelta, grouped: bool, leave_one_out: bool
) -> None:
    """`moirae similarity run`, from files to a file."""
    events = scenario(3, grouped)
    write_events(tmp_path / "alerts.jsonl.gz", events)
    with (tmp_path / "groups.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["event_id", "group"])
        writer.writerows((event.event_id, event.group or "") for event in events)
    command = [
        "similarity",
        "run",
        "--events",
        str(tmp_path / "alerts.jsonl.gz"),
        "--out",
        str(tmp_path / "run.csv"),
    ]
    command += ["--gap", f"{gap // timedelta(hours=1)}h", "--k", str(K), "--measure", "tfidf"]
    command += ["--groups", str(tmp_path / "groups.csv")] if grouped else []
    command += ["--leave-one-out"] if leave_one_out else []
    CliRunner().invoke(app, command, catch_exceptions=False)
    with (tmp_path / "run.csv").open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    answers: Answers = {event.event_id: [] for event in events}
    for row in rows:
        answers[row["query"]].append((row["event"], float(row["score"])))
        assert len(answers[row["query"]]) == int(row["rank"])
    assert_equal_answers(answers, expected_answers(events, gap, K, leave_one_out)[0])


def write_events(path: Path, events: list[ScenarioEvent]) -> None:
    with gzip.open(path, "wb") as file:
        for event in events:
            row = {
                "event_id": event.event_id,
                "event_type": event.event_type,
                "ts": event.ts,
                "facts": event.facts,
            }
            file.write(orjson.dumps(row) + b"\n")


def assert_equal_answers(answers: Answers, reference: Answers) -> None:
    """The same events in the same order, with equal scores."""
    for query, hits in reference.items():
        assert [event for event, _ in answers[query]] == [event for event, _ in hits], query
        assert [score for _, score in answers[query]] == pytest.approx(
            [score for _, score in hits], abs=1e-9
        ), query


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in LARGE)) for name in SCENARIOS],
)
def test_answers_equal_the_stored_reference(name: str) -> None:
    reference = reference_of(name)
    step = max(1, len(reference) // SAMPLE) if name in LARGE else 1
    compare(name, dict(list(reference.items())[::step]))


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_answers_equal_the_whole_stored_reference(name: str) -> None:
    compare(name, reference_of(name))


def compare(name: str, reference: dict[str, list[tuple[str, float]]]) -> None:
    """Our answers against the stored ones, and against what scikit-learn makes of the same alerts."""
    scenario, alerts = SCENARIOS[name], alerts_of(name)
    loo = scenario.gap is None
    answers = {
        answer.query.event_id: answer
        for answer in find_similar(
            alerts, scenario.gap or timedelta(0), K, MEASURES["tfidf"], loo, event_ids=reference
        )
    }
    independent = Independent(alerts, scenario.gap)
    for query, expected in reference.items():
        hits = [(past.event_id, score) for past, score in answers[query].hits]
        assert [event for event, _ in hits] == [event for event, _ in expected], query
        assert [score for _, score in hits] == pytest.approx(
            [score for _, score in expected], abs=1e-9
        ), query
        independent.check(answers[query])


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
        query, position = answer.query, self.places[answer.query.event_id]
        kind, matrix = self.kinds[query.event_type], self.matrices[query.event_type]
        counted = matrix if self.gap is None else matrix[: position + 1]
        shared_counts = np.asarray((counted > 0).sum(axis=0)).ravel()
        idf = np.log10(counted.shape[0] / np.maximum(shared_counts, 1))
        weighted = counted.multiply(idf).tocsr()
        scores = cosine_similarity(weighted[[position]], weighted).ravel()
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
            f"no reference data: {folder} is not there; MOIRAE_DATA names the folder that holds "
            f"`scenarios`"
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
    """The stored answers of each judged query, best first; none for queries without a score above
    0.
    """
    hits_by_query: dict[str, list[tuple[str, float]]] = {
        row["query"]: [] for row in rows_of(name, "qrels.csv.gz")
    }
    for row in rows_of(name, "top10.csv.gz"):
        if row["method"] == "tfidf_online":
            hits_by_query[row["query"]].append((row["event"], float(row["cosine"])))
            assert len(hits_by_query[row["query"]]) == int(row["rank"])
    return hits_by_query


def rows_of(name: str, file: str) -> Iterator[dict[str, str]]:
    with gzip.open(folder_of(name) / file, "rt", newline="") as lines:
        yield from csv.DictReader(lines)
