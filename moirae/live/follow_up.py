"""What follows an alert, after it has been told: its context and its recalls."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from psycopg import Connection

from moirae.evaluation import ActiveRule
from moirae.live.alert_contexts import AlertContexts
from moirae.live.recall_requests import RecallRequests

# Seconds: between two settlings of contexts; how far back alerts are looked at again, whatever clocks do.
_SETTLE_INTERVAL, _OVERLAP = 1.0, 60.0

# Each round takes hundreds of events further; what is not done then goes on with the next start.
_MAX_ROUNDS = 10_000

_TIME_QUERY = "SELECT clock_timestamp() - make_interval(secs => %s)"
_LAST_CHANGE_QUERY = "SELECT max(updated_at) FROM alerts WHERE rule = ANY(%s)"


class AlertFollowUp:
    """Looks after the questions of running rules, on the live process's connection."""

    def __init__(self, connection: Connection[Any], contexts: AlertContexts) -> None:
        self._connection = connection
        self._contexts = contexts
        self._recall_requests = RecallRequests(connection)
        self._changed_since: Any = None
        self._last_change: Any = None
        self._settled_at = 0.0

    def run(
        self,
        active_rules: Sequence[ActiveRule],
        watermarks: Mapping[str, int | None],
        newest: int | None,
    ) -> None:
        """Whatever is due. `newest`: the newest event time of the archive, in microseconds."""
        asking = [rule for rule in active_rules if rule.definition.has_questions]
        if not asking:
            return
        self._process_changed(asking, watermarks, newest)
        if time.monotonic() - self._settled_at >= _SETTLE_INTERVAL:
            self.settle(asking, watermarks)

    def settle(
        self, active_rules: Sequence[ActiveRule], watermarks: Mapping[str, int | None]
    ) -> bool:
        """Contexts that can be settled; returns whether there were any."""
        self._settled_at = time.monotonic()
        return self._contexts.settle(
            [rule for rule in active_rules if rule.definition.has_questions], watermarks
        )

    def run_to_end(
        self,
        active_rules: Sequence[ActiveRule],
        watermarks: Mapping[str, int | None],
        newest: int | None,
    ) -> None:
        """Everything, at the end of time."""
        asking = [rule for rule in active_rules if rule.definition.has_questions]
        if asking:
            for _ in range(_MAX_ROUNDS):
                more = self._process_changed(asking, watermarks, newest)
                if not self.settle(asking, watermarks) and not more:
                    break

    def _process_changed(
        self, asking: Sequence[ActiveRule], watermarks: Mapping[str, int | None], newest: int | None
    ) -> bool:
        """Contexts and recalls of alerts that have changed; returns whether there may be more."""
        changed = self._connection.execute(
            _LAST_CHANGE_QUERY, ([rule.name for rule in asking],)
        ).fetchone()
        if changed is None or changed[0] is None or changed[0] == self._last_change:
            return False
        moment = self._connection.execute(_TIME_QUERY, (_OVERLAP,)).fetchone()
        assert moment is not None
        more = self._recall_requests.add_missing(
            asking, self._changed_since, newest, with_context=False
        )
        more = self._contexts.compute_missing(asking, watermarks, self._changed_since) or more
        more = (
            self._recall_requests.add_missing(
                asking, self._changed_since, newest, with_context=True
            )
            or more
        )
        if not more:
            self._changed_since, self._last_change = moment[0], changed[0]
        return more
