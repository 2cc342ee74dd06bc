"""Metrics of answers, and the evaluation of rankers."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score

from recall.relevance.quality import METRICS, Evaluation, compute_metrics, evaluate
from recall.relevance.rankers.baselines import BASELINES
from recall.relevance.rankers.ready_contexts import AlertContext, rank_by
from recall.similarity.measures import MEASURES
from tests.unit.recall.relevance.incidents import make_incidents

RANKERS = {**{name: rank_by(measure) for name, measure in MEASURES.items()}, **BASELINES}


@given(
    st.lists(st.integers(0, 3), min_size=10, max_size=10),
    st.lists(st.integers(1, 3), min_size=1, max_size=5),
)
def test_metrics_agree_with_their_definitions(hit_gains: list[int], missed: list[int]) -> None:
    all_gains = [*hit_gains, *missed]
    ideal_gains = sorted(all_gains, reverse=True)[:10]
    metrics = dict(zip(METRICS, compute_metrics(hit_gains, ideal_gains), strict=True))
    relevances = [2.0**gain - 1 for gain in all_gains]
    ranking = list(range(len(all_gains), 0, -1))
    assert metrics["ndcg10"] == pytest.approx(ndcg_score([relevances], [ranking], k=10))
    assert metrics["p10"] == sum(gain > 0 for gain in hit_gains) / 10
    assert metrics["p5"] == sum(gain > 0 for gain in hit_gains[:5]) / 5
    assert metrics["p1"] == (hit_gains[0] > 0)
    first = next((rank for rank, gain in enumerate(hit_gains, start=1) if gain), None)
    assert metrics["mrr10"] == (1 / first if first else 0)


def test_answer_without_hits_scores_zero() -> None:
    assert compute_metrics([], [2, 1]) == (0, 0, 0, 0, 0)


def test_measure_is_better_than_chance_on_incidents() -> None:
    corpus = make_incidents(60)
    evaluation = evaluate(corpus.alerts, corpus.gains_of, RANKERS, corpus.gap)
    estimates = evaluation.estimates()
    assert len(evaluation.queries) == len(evaluation.candidates) > 230
    assert estimates["tfidf"]["p10"].value > estimates["chance"]["p10"].value + 0.15
    for estimates_by_metric in estimates.values():
        for estimate in estimates_by_metric.values():
            assert estimate.low <= estimate.value <= estimate.high
            assert 0.005 < estimate.high - estimate.low < 0.3


def test_periods_cover_all_queries_once() -> None:
    corpus = make_incidents(60)
    evaluation = evaluate(corpus.alerts, corpus.gains_of, RANKERS, corpus.gap)
    periods = evaluation.periods()
    query_count = len(evaluation.queries)
    assert len(periods) == 8
    assert sum(period.queries for period in periods) == query_count
    mean = sum(period.p10["tfidf"] * period.queries for period in periods) / query_count
    assert mean == pytest.approx(evaluation.estimates()["tfidf"]["p10"].value)


def test_evaluation_without_judged_queries_has_no_periods() -> None:
    corpus = make_incidents(1)
    evaluation = evaluate(corpus.alerts, lambda _: {}, RANKERS, timedelta(0))
    assert evaluation.queries == []
    assert evaluation.periods() == []
    assert Evaluation().periods() == []


def test_ceilings_are_the_shares_of_relevant_candidates() -> None:
    evaluation = Evaluation(relevant=[1, 2, 20])
    ceilings = evaluation.ceilings()
    assert ceilings["p1"] == ceilings["mrr10"] == 1
    assert ceilings["p5"] == pytest.approx((0.2 + 0.4 + 1) / 3)
    assert ceilings["p10"] == pytest.approx((0.1 + 0.2 + 1) / 3)


def test_intervals_are_wider_where_queries_are_of_one_episode() -> None:
    alerts = [AlertContext(f"e{number}", "t", number, {}) for number in range(200)]
    values = [compute_metrics([number // 20 % 2], [1]) for number in range(200)]
    widths = []
    for size in (1, 20):
        episodes = {f"e{number}": number // size for number in range(200)}
        evaluation = Evaluation(alerts, {"r": values}, episodes=episodes)
        assert evaluation.episode_count == 200 // size
        estimate = evaluation.estimates()["r"]["p1"]
        widths.append(estimate.high - estimate.low)
    assert widths[1] > 3 * widths[0] > 0


def test_differences_of_rankers_are_paired() -> None:
    corpus = make_incidents(60)
    evaluation = evaluate(corpus.alerts, corpus.gains_of, RANKERS, corpus.gap)
    estimates = evaluation.estimates()
    difference = evaluation.differences("tfidf", "chance")["p10"]
    expected = estimates["tfidf"]["p10"].value - estimates["chance"]["p10"].value
    assert difference.value == pytest.approx(expected)
    assert 0 < difference.low <= difference.value <= difference.high
    itself = evaluation.differences("tfidf", "tfidf")["p10"]
    assert (itself.low, itself.value, itself.high) == (0, 0, 0)
