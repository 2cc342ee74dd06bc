"""What people decided about incidents, and what follows for later alerts. No I/O."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

DecisionKind = Literal["split", "merge"]


@dataclass(frozen=True)
class Decision:
    """Alerts of the series `left` are of another failure than those of `right`, or of the same.

    `at`: when it was decided.
    """

    kind: DecisionKind
    at: datetime
    author: str
    left: frozenset[str]
    right: frozenset[str]

    def concerns(self, first: str, second: str) -> bool:
        """Whether it is about alerts of two series. Those of one series are like each other."""
        if first == second:
            return False
        return (first in self.left and second in self.right) or (
            first in self.right and second in self.left
        )


class Decisions:
    """All decisions; of those about the same two series, the newest counts."""

    def __init__(self, decisions: Iterable[Decision] = ()) -> None:
        self._decisions = sorted(decisions, key=lambda decision: decision.at, reverse=True)

    def find(self, series: str, series_of_incident: Sequence[str]) -> Decision | None:
        """The newest decision about a series and any of those of an incident."""
        for decision in self._decisions:
            if any(decision.concerns(series, other) for other in series_of_incident):
                return decision
        return None
