"""Places the alerts of a workspace in incidents, each once, in the order in which they come.

A transaction reads alerts from the queue that a trigger fills, decides, stores and dequeues: killed
at any point, it is repeated. What has been placed is read again at the start, and after people have
decided something; see `Grouper.put`.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import blake2b, sha256
from uuid import UUID

import sql
from archiver.clock import utc_now
from archiver.times import from_micros, to_micros
from moirae.incidents.alert_features import AlertFeatures, make_features
from moirae.incidents.changes import MAX_ROWS, NearbyChanges
from moirae.incidents.decisions import Decision, DecisionKind
from moirae.incidents.describe import describe_unread
from moirae.incidents.grouping import Grouper, GroupingPolicy
from moirae.incidents.overlap import HISTORY, MIN_COUNTED
from moirae.topology import Topology, load_topology, surround, to_location
from recall.similarity import count_terms
from sql.alerts import GroupedAlertRow, IncidentDecisionRow, IncidentGateway, NewPlacement
from sql.archive import ErasureGateway

CONTEXT_WAIT = timedelta(seconds=2)
"""How long an alert waits for its context."""
_BATCH = 25  # alerts of one transaction, so that a storm of alerts does not hold up detection


class IncidentEngine:
    """Places alerts on the connection of the live process.

    `steps`: how far places may be apart in the relation topology. `find_changes`: the changes near
    alerts that began in a range of time.
    """

    def __init__(
        self,
        connection: sql.Connection,
        policy: GroupingPolicy,
        steps: int,
        find_changes: Callable[[datetime, datetime], NearbyChanges],
    ) -> None:
        self._connection = connection
        self._gateway = IncidentGateway(connection)
        self._key = ErasureGateway(connection).get_key()
        self._policy = policy
        self._steps = steps
        self._find_changes = find_changes
        self._grouper: Grouper | None = None
        self._last_decision = 0

    def change_policy(self, policy: GroupingPolicy, steps: int) -> None:
        """Place the next alerts by another policy. Alerts that are in incidents stay there."""
        if (policy, steps) != (self._policy, self._steps):
            self._policy, self._steps = policy, steps
            self._grouper = None  # it has compared by the policy before

    def run_once(self, context_wait: timedelta = CONTEXT_WAIT) -> bool:
        """Place alerts; return whether there may be more at once."""
        rows = self._gateway.list_unplaced(context_wait, limit=_BATCH)
        if not rows:
            return False
        alerts = [row for row in rows if not row.withdrawn]
        grouper, self._grouper = self._grouper, None  # a failure leaves it half changed
        with self._connection.transaction():
            self._gateway.lock_decisions()
            last_decision = self._gateway.last_decision()
            topology = load_topology(self._connection, utc_now())
            if last_decision != self._last_decision:
                grouper = None  # it does not know the decision
            if alerts and grouper is None:
                grouper = self._load_grouper(alerts[0].starts_at, topology)
            placements = self._place(grouper, alerts, topology) if grouper is not None else []
            self._gateway.place(placements, [row.id for row in rows])
        self._grouper, self._last_decision = grouper, last_decision
        return len(rows) == _BATCH

    def run_to_end(self) -> None:
        """Place all alerts, once no further context comes."""
        while self.run_once(timedelta(0)):
            pass

    def _place(
        self, grouper: Grouper, alerts: Sequence[GroupedAlertRow], topology: Topology
    ) -> list[NewPlacement]:
        if not alerts:
            return []
        nearby = self._find_changes(alerts[0].starts_at, alerts[-1].starts_at)
        changes_by_alert = {
            row.id: nearby.find(
                surround(to_location(row.key), topology, self._steps), to_micros(row.starts_at)
            )
            for row in alerts
        }
        unread = describe_unread(nearby.unread, MAX_ROWS)
        placements = []
        for alert in self._describe(alerts, topology, changes_by_alert):
            placed = grouper.place(alert)
            placements.append(
                NewPlacement(
                    alert.id,
                    placed.incident,
                    alert.series,
                    placed.overlap,
                    placed.reason + unread,
                    changes_by_alert[alert.id],
                )
            )
        return placements

    def _load_grouper(self, oldest: datetime, topology: Topology) -> Grouper:
        """A grouper that knows where earlier alerts are. `oldest`: start of the next alert."""
        newest = self._gateway.newest_start() or oldest
        since = from_micros(to_micros(min(oldest, newest)) - 2 * HISTORY)
        rows = self._gateway.list_placed(since, 2 * MIN_COUNTED)
        decisions = map(_to_decision, self._gateway.list_decisions())
        grouper = Grouper(self._policy, decisions)
        changes_by_alert = {row.id: row.changes for row in rows}
        for row, alert in zip(rows, self._describe(rows, topology, changes_by_alert), strict=True):
            grouper.put(alert, row.incident)
        return grouper

    def _describe(
        self,
        rows: Sequence[GroupedAlertRow],
        topology: Topology,
        changes_by_alert: Mapping[UUID, Sequence[str]],
    ) -> list[AlertFeatures]:
        contexts = {
            (row.rule, row.version, row.eid): row.contexts
            for row in self._gateway.list_contexts(rows)
        }
        alerts = []
        for row in rows:
            tables = contexts.get((row.rule, row.version, row.eid), {})
            features = make_features(
                count_terms(tables, tables),
                to_location(row.key),
                topology,
                self._steps,
                changes_by_alert[row.id],
            )
            series = make_series(self._key, row.rule, row.fingerprint)
            alerts.append(AlertFeatures(row.id, series, to_micros(row.starts_at), features))
        return alerts


def make_series(key: bytes, rule: str, fingerprint: str) -> str:
    """Names the alerts of one rule and key for good, so that nobody can tell values from it.

    `key`: of the keyed hashes of the workspace.
    """
    # Decisions of earlier versions, whose alerts may be gone, had the inner hash.
    inner = blake2b(f"{rule}\0{fingerprint}".encode(), digest_size=12).hexdigest()
    return sha256(key + inner.encode()).hexdigest()


def _to_decision(row: IncidentDecisionRow) -> Decision:
    kind: DecisionKind = "merge" if row.kind == "merge" else "split"
    return Decision(kind, row.at, row.author, frozenset(row.series), frozenset(row.others))
