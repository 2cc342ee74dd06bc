"""The rankers with which measures are compared."""

from datetime import timedelta

import numpy as np
import pytest

from recall.relevance.rankers.baselines import BASELINES
from recall.relevance.rankers.ready_contexts import AlertContext, CandidateSet, iter_candidate_sets
from tests.unit.recall.contexts import HOUR


@pytest.fixture(name="last_alert")
def _last_alert() -> CandidateSet:
    """The seventh alert, with candidates e0 to e6; odd ones are of the same location."""
    alerts = []
    for number in range(8):
        location = "same" if number % 2 else "other"
        alerts.append(AlertContext(f"e{number}", "t", number * HOUR, {"a=1": 1}, location=location))
    *_, last = iter_candidate_sets(alerts, timedelta(0))
    return last


def _order(name: str, candidate_set: CandidateSet) -> list[int]:
    return np.argsort(-BASELINES[name](candidate_set)).tolist()


def test_recency_ranks_the_newest_first(last_alert: CandidateSet) -> None:
    assert _order("recency", last_alert) == [6, 5, 4, 3, 2, 1, 0]


def test_same_place_ranks_the_same_location_first(last_alert: CandidateSet) -> None:
    assert _order("same place", last_alert) == [5, 3, 1, 6, 4, 2, 0]


def test_chance_ranks_all_candidates_in_a_repeatable_order(last_alert: CandidateSet) -> None:
    order = _order("chance", last_alert)
    assert sorted(order) == [0, 1, 2, 3, 4, 5, 6]
    assert _order("chance", last_alert) == order
    assert (BASELINES["chance"](last_alert) > 0).all()


def test_bm25_agrees_with_its_definition() -> None:
    """E = 4; `a=1` is in three contexts, `b=1` in two; the mean length of the past ones is 2."""
    contexts = [{"a=1": 1}, {"a=1": 1, "b=1": 2}, {"c=1": 2}, {"a=1": 1, "b=1": 1}]
    alerts = [
        AlertContext(f"e{number}", "t", number * HOUR, terms)
        for number, terms in enumerate(contexts)
    ]
    *_, last = iter_candidate_sets(alerts, timedelta(0))
    a_weight, b_weight = np.log(1 + 1.5 / 3.5), np.log(1 + 2.5 / 2.5)
    shorter, longer = 1.2 * (0.25 + 0.75 * 0.5), 1.2 * (0.25 + 0.75 * 1.5)
    expected = [
        a_weight * 2.2 / (1 + shorter),
        a_weight * 2.2 / (1 + longer) + b_weight * 4.4 / (2 + longer),
        0,
    ]
    assert BASELINES["bm25"](last) == pytest.approx(expected)
