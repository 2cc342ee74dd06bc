"""Costs of rules are added up until they are taken."""

from typing import Any

from moirae.evaluation.costs import (
    RuleCost,
    RuleCosts,
    RuleCounts,
    SharedTime,
    divide_time,
)
from tests.unit.moirae.evaluation.builders import make_filter


def test_costs_are_added_up_until_they_are_taken() -> None:
    costly, counted, cheap = make_filter("A", 1.0), make_filter("B", 1.0), make_filter("C", 1.0)
    costs = RuleCosts()
    seconds: list[Any] = []
    costs.on_seconds = seconds.append
    costs.add({costly: 0.5, cheap: 0.0001}, {counted.rule_version: RuleCounts(3, 1)})
    costs.add({costly: 0.25}, {costly.rule_version: RuleCounts(1, 1)})
    assert seconds == [{"g/A": 0.5, "g/C": 0.0001}, {"g/A": 0.25}]
    assert costs.take() == {"g/A": RuleCost(0.75, 1, 1), "g/B": RuleCost(0.0, 3, 1)}
    assert costs.take() == {}


def test_shared_time_is_divided_by_candidate_rows() -> None:
    rare, frequent, other = make_filter("A", 1.0), make_filter("B", 1.0), make_filter("C", 1.0)
    shared = [SharedTime(4.0, [([rare, frequent], 1_000), ([other], 10)])]
    counts = {
        rare.rule_version: RuleCounts(40, 10),
        frequent.rule_version: RuleCounts(900, 20),
    }
    assert divide_time(shared, counts) == {rare: 1.0, frequent: 2.0, other: 1.0}
    assert divide_time(shared, {}) == {
        rare: 4.0 * 1_000 / 2_010,
        frequent: 4.0 * 1_000 / 2_010,
        other: 4.0 * 10 / 2_010,
    }


def test_rule_without_candidates_has_no_part_of_a_query_that_the_index_reduced() -> None:
    matching, without = make_filter("A", 1.0), make_filter("B", 1.0)
    shared = [SharedTime(2.0, [([matching, without], 5)])]
    counts = {matching.rule_version: RuleCounts(5, 1)}
    assert divide_time(shared, counts) == {matching: 2.0, without: 0.0}


def test_time_over_no_rows_is_shared_evenly() -> None:
    rules = [make_filter("A", 1.0), make_filter("B", 1.0)]
    assert divide_time([SharedTime(2.0, [(rules, 0)])], {}) == dict.fromkeys(rules, 1.0)
