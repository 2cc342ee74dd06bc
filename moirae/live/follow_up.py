"""Follow-up of alerts: the contexts and recalls of alerts that have changed."""

import time
from collections.abc import Mapping, Sequence
from datetime import datetime

import sql
from moirae.evaluation import ActiveRule
from moirae.live.alert_contexts import AlertContexts
from moirae.live.recall_requests import RecallRequests

_SETTLE_INTERVAL = 1.0  # seconds between settlings of contexts
# Seconds: alerts changed this long before the last round are processed again, since transactions
# may commit late and clocks may be set back.
_OVERLAP = 60.0

# Bounds the loop at the end of the input. A round handles hundreds of events; what remains is
# processed after the next start.
_MAX_ROUNDS = 10_000


class AlertFollowUp:
    """Runs contexts and recalls of the active rules, on the connection of the live process."""

    def __init__(self, connection: sql.Connection, contexts: AlertContexts) -> None:
        self._alerts = sql.AlertGateway(connection)
        self._contexts = contexts
        self._recall_requests = RecallRequests(connection)
        self._changed_since: datetime | None = None
        self._last_change: datetime | None = None
        self._settled_at = 0.0

    def run(
        self,
        active_rules: Sequence[ActiveRule],
        watermarks: Mapping[str, int | None],
        newest: int | None,
    ) -> None:
        """Run what is due. `newest`: the newest event time of the archive, in microseconds."""
        recalling = _recalling_rules(active_rules)
        if not recalling:
            return
        self._process_changed(recalling, watermarks, newest)
        if time.monotonic() - self._settled_at >= _SETTLE_INTERVAL:
            self.settle(recalling, watermarks)

    def settle(
        self, active_rules: Sequence[ActiveRule], watermarks: Mapping[str, int | None]
    ) -> bool:
        """Settle the contexts that every stream has passed; return whether there were any."""
        self._settled_at = time.monotonic()
        return self._contexts.settle(_recalling_rules(active_rules), watermarks)

    def run_to_end(
        self,
        active_rules: Sequence[ActiveRule],
        watermarks: Mapping[str, int | None],
        newest: int | None,
    ) -> None:
        """Run until nothing is due, once the input has ended."""
        recalling = _recalling_rules(active_rules)
        if not recalling:
            return
        for _ in range(_MAX_ROUNDS):
            has_more = self._process_changed(recalling, watermarks, newest)
            if not self.settle(recalling, watermarks) and not has_more:
                break

    def _process_changed(
        self,
        recalling: Sequence[ActiveRule],
        watermarks: Mapping[str, int | None],
        newest: int | None,
    ) -> bool:
        """Run contexts and recalls of changed alerts; return whether there may be more of them."""
        last_change = self._alerts.last_change([rule.name for rule in recalling])
        if last_change is None or last_change == self._last_change:
            return False
        round_start = self._alerts.time_before(_OVERLAP)
        since = self._changed_since
        has_more = [
            self._recall_requests.add_missing(recalling, since, newest, with_context=False),
            self._contexts.compute_missing(recalling, watermarks, since),
            self._recall_requests.add_missing(recalling, since, newest, with_context=True),
        ]
        if any(has_more):
            return True
        self._changed_since = round_start
        self._last_change = last_change
        return False


def _recalling_rules(active_rules: Sequence[ActiveRule]) -> list[ActiveRule]:
    return [rule for rule in active_rules if rule.definition.has_questions]
