"""How good answers are: the metrics, the guesses beside them, and the probability that the best hit is right."""

from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score

from moirae.errors import MoiraeError
from moirae.feedback.context_files import read_judgements, read_labels
from moirae.feedback.judgements import JudgedCorpus
from moirae.feedback.training import build_training_cases
from recall.relevance.baselines import BASELINES
from recall.relevance.calibration import CalibrationCase, fit_calibration, measure_reliability
from recall.relevance.quality import METRICS, compute_metrics, evaluate
from recall.relevance.ready_contexts import AlertContext, rank_by
from recall.similarity.calibration_model import Calibration, answer_features
from recall.similarity.measure import MEASURES

HOUR, DAY = 3_600_000_000, 86_400_000_000
RANKERS = {**{name: rank_by(measure) for name, measure in MEASURES.items()}, **BASELINES}


@given(
    st.lists(st.integers(0, 3), min_size=10, max_size=10),
    st.lists(st.integers(1, 3), min_size=1, max_size=5),
)
def test_metrics_are_those_of_the_books(hits: list[int], missed: list[int]) -> None:
    gains = [2.0**gain - 1 for gain in (*hits, *missed)]
    ranked = [list(range(len(gains), 0, -1))]
    found = dict(
        zip(
            METRICS, compute_metrics(hits, sorted([*hits, *missed], reverse=True)[:10]), strict=True
        )
    )
    assert found["ndcg10"] == pytest.approx(ndcg_score([gains], ranked, k=10))
    assert found["p10"] == sum(gain > 0 for gain in hits) / 10
    assert found["p1"] == (hits[0] > 0)
    first = next((rank for rank, gain in enumerate(hits, start=1) if gain), None)
    assert found["mrr10"] == (1 / first if first else 0)


def incidents(days: int, seed: int = 1) -> JudgedCorpus:
    """Three kinds of incidents, a few each day, with words that tell the kind in most of them."""
    rng = np.random.default_rng(seed)
    alerts, kinds = [], {}
    for n in range(days * 4):
        kind = "disk cpu net".split()[int(rng.integers(3))]
        told = kind if rng.random() < 0.7 else "disk cpu net".split()[int(rng.integers(3))]
        facts = {
            f"msg={told}{int(rng.integers(3))}": 1,
            f"host=n{int(rng.integers(5))}": 1,
            "all=1": 1,
        }
        alerts.append(AlertContext(f"e{n}", "t", n * DAY // 4, facts, location=f"n{n % 5}"))
        kinds[f"e{n}"] = kind
    return JudgedCorpus("incidents", alerts, kinds, gap=timedelta(hours=1))


def test_measures_stand_beside_guesses() -> None:
    known = incidents(60)
    found = evaluate(known.alerts, known.gains_of, RANKERS, known.gap)
    estimates = found.estimates()
    assert len(found.queries) == len(found.candidates) > 230
    assert estimates["tfidf"]["p10"].value > estimates["chance"]["p10"].value + 0.15
    for row in estimates.values():
        for estimate in row.values():
            assert estimate.low <= estimate.value <= estimate.high
            assert 0.005 < estimate.high - estimate.low < 0.3
    parts = found.periods()
    assert sum(part.queries for part in parts) == len(found.queries)
    mean = sum(part.p10["tfidf"] * part.queries for part in parts) / len(found.queries)
    assert mean == pytest.approx(estimates["tfidf"]["p10"].value)


def test_guesses_are_what_they_say() -> None:
    alerts = [
        AlertContext(f"e{n}", "t", n * HOUR, {"a=1": 1}, location="here" if n % 2 else "there")
        for n in range(8)
    ]
    asked = JudgedCorpus("", alerts, {})
    order: dict[str, list[str]] = {}

    def gains(question: object) -> dict[str, int]:
        return {"e0": 1} if question.alert.event_id == "e7" else {}  # type: ignore[attr-defined]

    def noting(name: str) -> object:
        def ranker(question: object) -> object:
            scores = BASELINES[name](question)  # type: ignore[arg-type]
            order[name] = [f"e{row}" for row in np.argsort(-scores)]
            return scores

        return ranker

    evaluate(asked.alerts, gains, {name: noting(name) for name in BASELINES}, timedelta(0))  # type: ignore[misc]
    assert order["recency"] == ["e6", "e5", "e4", "e3", "e2", "e1", "e0"]
    assert order["same place"] == ["e5", "e3", "e1", "e6", "e4", "e2", "e0"]
    assert sorted(order["chance"]) == [f"e{n}" for n in range(7)]


def test_what_is_said_of_a_hit_counts_more_than_its_kind() -> None:
    alerts = [AlertContext(f"e{n}", "t", n * HOUR, {"a=1": 1}) for n in range(4)]
    known = JudgedCorpus(
        "", alerts, {"e0": "x", "e1": "x", "e3": "x"}, {("e3", "e0"): False, ("e3", "e2"): True}
    )
    seen: dict[str, object] = {}

    def gains(question: object) -> object:
        seen["last"] = known.gains_of(question)  # type: ignore[arg-type]
        return seen["last"]

    evaluate(alerts, gains, {}, timedelta(0))  # type: ignore[arg-type]
    assert seen["last"] == {"e1": 1, "e2": 2}
    assert [known.is_same_kind("e3", past) for past in ("e0", "e1", "e2")] == [False, True, True]
    assert known.is_same_kind("e2", "e0") is None


def test_probabilities_hold_on_later_events() -> None:
    found = measure_reliability(build_training_cases(incidents(500)))
    assert found is not None
    assert found.training_cases + found.test_cases > 1900
    assert found.brier_score < found.baseline_brier_score - 0.01
    for one in found.bins:
        if one.cases >= 100:
            assert one.mean_predicted == pytest.approx(one.observed_share, abs=0.12)


def test_nothing_is_learned_of_too_little() -> None:
    right = [
        CalibrationCase(n, answer_features([0.9, 0.1], ["x", "x"], 100), True) for n in range(100)
    ]
    assert fit_calibration(right) is None
    assert fit_calibration(right[:20]) is None
    assert measure_reliability(right) is None
    wrong = [
        CalibrationCase(n, answer_features([0.2, 0.1], ["x", "y"], 100), False)
        for n in range(100, 130)
    ]
    model = fit_calibration([*right, *wrong])
    assert model is not None
    assert model.probability(right[0].features) > 0.9 > 0.1 > model.probability(wrong[0].features)
    assert Calibration.from_json(model.to_json()) == model


def test_files_of_labels_and_judgements(tmp_path: Path) -> None:
    labels, judgements = tmp_path / "labels.csv", tmp_path / "judgements.csv"
    labels.write_text("event_id,label,other\ne1,disk,1\ne2,,2\n")
    assert read_labels(labels) == {"e1": "disk"}
    judgements.write_text("query,relevant_events\ne1,e0:2 a:b:1\ne2,\n")
    assert read_judgements(judgements) == {"e1": {"e0": 2, "a:b": 1}}
    judgements.write_text("query,relevant_events\ne1,e0:0\n")
    with pytest.raises(MoiraeError, match=r"judgements.csv:2: 'e0:0' is not event:gain"):
        read_judgements(judgements)
