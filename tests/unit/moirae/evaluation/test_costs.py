"""Costs of rules are added up until they are taken."""

from typing import Any

from moirae.evaluation.costs import RuleCost, RuleCosts, RuleCounts
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
