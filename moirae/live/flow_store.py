"""Stores what streams, rules and contexts have processed, and what rules cost."""

from collections.abc import Mapping, Sequence

import sql
from archiver.periodic import Timer
from moirae.evaluation import RuleCost
from sql.reports import FlowGateway, FlowRow
from sql.rules import RuleCandidateGateway

# Within the five minutes of which figures are listed: the last known memory is among them.
_UNCHANGED_INTERVAL = 60.0  # seconds between writes of figures that nothing was added to


class FlowStore:
    """Adds figures to those in PostgreSQL; one that is idle writes once a minute."""

    def __init__(self, connection: sql.Connection) -> None:
        self._flows = FlowGateway(connection)
        self._candidates = RuleCandidateGateway(connection)
        self._timer = Timer(_UNCHANGED_INTERVAL)

    def add(self, flows: Sequence[FlowRow], costs: Mapping[str, RuleCost]) -> None:
        """Add the figures since the last call. `costs`: by rule."""
        is_due = self._timer.is_due()
        if is_due or any(flow.rows or flow.seconds for flow in flows):
            self._flows.add(flows)
        if is_due:
            self._flows.delete_old()
            self._timer.restart()
        if costs:
            rows = [{"rule": rule, **cost._asdict()} for rule, cost in costs.items()]
            self._candidates.add(rows)
