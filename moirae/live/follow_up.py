"""Follow-up of alerts: the contexts and recalls of alerts that have changed."""

import time
from collections.abc import Mapping, Sequence
from datetime import datetime

import sql
from archiver.ingest import ArchiveWriter
from archiver.periodic import Timer
from archiver.times import Micros
from moirae.evaluation.plan import ActiveRule
from moirae.live.active_rules import ActiveRules
from moirae.live.alert_contexts import AlertContexts
from moirae.live.event_time import get_watermarks, newest_time_not_ahead
from moirae.live.recall_requests import RecallRequests
from moirae.live.unsettled_reads import UnsettledReads
from moirae.rules import ALERTS
from sql.alerts import AlertGateway
from sql.processes import ProcessGateway

_SETTLE_INTERVAL = 1.0  # seconds between settlings of contexts
# Seconds: alerts changed this long before the last round are processed again, since transactions
# may commit late and clocks may be set back.
_OVERLAP = 60.0

# Bounds the loop at the end of the input. A round handles hundreds of events; what remains is
# processed after the next start.
_MAX_ROUNDS = 10_000
# At the end of the input: between two checks whether recalls that contexts read have ended.
_WAIT_INTERVAL = 0.2  # seconds


class AlertFollowUp:
    """Runs contexts and recalls of the active rules, on the connection of the live process."""

    def __init__(
        self,
        *,
        archive: ArchiveWriter,
        connection: sql.Connection,
        active_rules: ActiveRules,
        contexts: AlertContexts,
        relations: Mapping[str, Mapping[str, str]],
    ) -> None:
        """`relations`: with the types of their columns."""
        self._archive = archive
        self._active_rules = active_rules
        self._alerts = AlertGateway(connection)
        self._contexts = contexts
        self._unsettled_reads = UnsettledReads(connection, relations)
        self._recall_requests = RecallRequests(connection, relations, self._unsettled_reads)
        self._changed_since: datetime | None = None
        self._last_change: datetime | None = None
        self._has_deferred = False
        self._settle_timer = Timer(_SETTLE_INTERVAL)
        self._connection = connection

    def run(self) -> bool:
        """Process the contexts and recalls of changed alerts; settle contexts at intervals.

        Returns whether there may be more changed alerts.
        """
        recalling = self._recalling_rules()
        if not recalling:
            return False
        watermarks = self._watermarks()
        has_more = self._process_changed(recalling, watermarks)
        if self._settle_timer.is_due():
            self._settle_timer.restart()
            self._settle(recalling, watermarks)
        return has_more

    def run_to_end(self) -> None:
        """Process all contexts and recalls, once the input has ended.

        Waits for recalls that contexts read, while a recall process runs.
        """
        recalling = self._recalling_rules()
        if not recalling:
            return
        watermarks = self._watermarks()
        for _ in range(_MAX_ROUNDS):
            has_more = self._process_changed(recalling, watermarks)
            if self._settle(recalling, watermarks) or has_more:
                continue
            is_waiting = (
                self._has_deferred
                or self._contexts.has_open_recalls(recalling)
                or self._unsettled_reads.has_open(watermarks[ALERTS])
            )
            if not is_waiting or not is_recall_running(self._connection):
                break
            time.sleep(_WAIT_INTERVAL)

    def _settle(
        self, recalling: Sequence[ActiveRule], watermarks: Mapping[str, Micros | None]
    ) -> bool:
        """Settle contexts, and recalls over alerts; return whether there may be more of them."""
        has_settled = self._contexts.settle(recalling, watermarks)
        return self._unsettled_reads.settle(watermarks[ALERTS]) or has_settled

    def _watermarks(self) -> dict[str, Micros | None]:
        """The watermarks of all streams, and of the alerts of all rules."""
        watermarks = get_watermarks(self._archive)
        watermarks.setdefault(ALERTS, self._active_rules.alerts_watermark())
        return watermarks

    def _process_changed(
        self, recalling: Sequence[ActiveRule], watermarks: Mapping[str, Micros | None]
    ) -> bool:
        """Run contexts and recalls of changed alerts; return whether there may be more of them."""
        last_change = self._alerts.last_change([rule.name for rule in recalling])
        if last_change is None or last_change == self._last_change:
            return False
        round_start = self._alerts.time_before(_OVERLAP)
        since = self._changed_since
        newest = newest_time_not_ahead(self._archive)
        self._has_deferred = False
        has_more = [
            self._add_requests(recalling, since, newest, with_context=False),
            self._contexts.compute_missing(recalling, watermarks, since),
            self._add_requests(recalling, since, newest, with_context=True),
        ]
        if any(has_more):
            return True
        if self._has_deferred:  # tried again in the next round
            return False
        self._changed_since = round_start
        self._last_change = last_change
        return False

    def _add_requests(
        self,
        recalling: Sequence[ActiveRule],
        since: datetime | None,
        newest: Micros | None,
        *,
        with_context: bool,
    ) -> bool:
        has_more = self._recall_requests.add_missing(recalling, since, newest, with_context)
        self._has_deferred = self._has_deferred or self._recall_requests.has_deferred
        return has_more

    def _recalling_rules(self) -> list[ActiveRule]:
        return [rule for rule in self._active_rules.rules if rule.has_questions]


def is_recall_running(connection: sql.Connection) -> bool:
    """Whether recalls may end: a recall process runs."""
    for process in ProcessGateway(connection).list_all():
        if process.alive and process.role.startswith("recall"):
            return True
    return False
