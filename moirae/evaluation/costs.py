"""What the evaluation of rules costs: time, and rows of the index. No I/O."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from moirae.evaluation.plan import ActiveRule, RuleVersion

_MIN_SECONDS = 0.001  # between two calls of `take`: less is not worth a row in the database


class RuleCounts(NamedTuple):
    """Rows that were evaluated with a rule, and those for which it held or that other engines got."""

    candidates: int
    matches: int


class RuleCost(NamedTuple):
    """`candidates`, `matches`: see `RuleCounts`."""

    seconds: float
    candidates: int
    matches: int


class SharedTime(NamedTuple):
    """Seconds that queries took together.

    `queries`: for each, the rules that share it, and how many rows it was over.
    """

    seconds: float
    queries: Sequence[tuple[Sequence[ActiveRule], int]]


def divide_time(
    shared: Iterable[SharedTime], counts: Mapping[RuleVersion, RuleCounts]
) -> dict[ActiveRule, float]:
    """The seconds of each rule, divided by candidate rows; evenly if there are none.

    Candidates of a rule are the rows that the index left to the query; without the index, all rows.
    """
    seconds: dict[ActiveRule, float] = {}
    for spent, queries in shared:
        weights: dict[ActiveRule, int] = {}
        for rules, row_count in queries:
            if any(rule.rule_version in counts for rule in rules):
                for rule in rules:
                    rule_counts = counts.get(rule.rule_version)
                    weights[rule] = 0 if rule_counts is None else rule_counts.matches
            else:
                weights |= dict.fromkeys(rules, row_count)
        total = sum(weights.values())
        if not total:
            weights = dict.fromkeys(weights, 1)
            total = len(weights)
        for rule, weight in weights.items():
            seconds[rule] = seconds.get(rule, 0.0) + spent * weight / total
    return seconds


class RuleCosts:
    """The costs of rules, by name, since they were last taken."""

    def __init__(self) -> None:
        self._costs: dict[str, RuleCost] = {}
        self.on_seconds: Callable[[Mapping[str, float]], None] | None = None
        """Gets the seconds of rules in each evaluation, by name."""

    def add(
        self, seconds: Mapping[ActiveRule, float], counts: Mapping[RuleVersion, RuleCounts]
    ) -> None:
        """Add the costs of an evaluation."""
        by_name = {rule.name: spent for rule, spent in seconds.items()}
        for name, spent in by_name.items():
            self._add(name, RuleCost(spent, 0, 0))
        for version, rule_counts in counts.items():
            self._add(version.rule, RuleCost(0.0, *rule_counts))
        if self.on_seconds is not None and by_name:
            self.on_seconds(by_name)

    def _add(self, name: str, cost: RuleCost) -> None:
        seconds, candidates, matches = self._costs.get(name, (0.0, 0, 0))
        self._costs[name] = RuleCost(
            seconds + cost.seconds, candidates + cost.candidates, matches + cost.matches
        )

    def take(self) -> Mapping[str, RuleCost]:
        """The costs since the last call, without those that are hardly noticeable."""
        costs = {
            name: cost
            for name, cost in self._costs.items()
            if cost.candidates or cost.seconds >= _MIN_SECONDS
        }
        self._costs = {}
        return costs
