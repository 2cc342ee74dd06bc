"""Rows that the rule index evaluated with rules, and the time that rules took."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sql.gateway import Gateway


@dataclass(frozen=True, slots=True)
class CandidateCounts:
    """Rows that were evaluated with a rule, and those that matched or that another engine got."""

    candidates: int
    matches: int


class RuleCandidateGateway(Gateway):
    queries = "rule_candidates"

    def add(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add to the counts of rules.

        `rows`: each with `rule`, `candidates`, `matches` and `seconds`.
        """
        self._execute_rows("add", rows)
        self._execute("delete_old")

    def get_last_hour(self, rule: str) -> CandidateCounts:
        """The counts of a rule in the last hour, to ten minutes."""
        counts = self._record(CandidateCounts, "get_last_hour", rule=rule)
        assert counts is not None
        return counts
