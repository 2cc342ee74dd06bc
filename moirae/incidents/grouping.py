"""Groups alerts into incidents: near in time, with contexts, places or changes that overlap. No I/O.

Each alert is placed once, in the order in which alerts come: in the incident with which it overlaps
most, or in one of its own. What people decide about incidents counts before overlaps, for later
alerts of the same rules and keys too. A grouper that has been told where earlier alerts are places
later ones as if it had placed all of them.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from archiver.times import Micros
from moirae.alerts import make_incident_id
from moirae.incidents.alert_features import KINDS, AlertFeatures, Kind
from moirae.incidents.decisions import Decision, Decisions
from moirae.incidents.describe import describe_decision, describe_overlap
from moirae.incidents.overlap import HISTORY, Overlaps


@dataclass(frozen=True)
class GroupingPolicy:
    """When an alert is proposed as part of an incident.

    `threshold`: the least overlap, from 0 to 1. `within`: microseconds from the newest alert of the
    incident.
    """

    threshold: float = 0.4
    within: Micros = 300_000_000


@dataclass(frozen=True)
class Placement:
    """In which incident an alert is. `overlap`: 0 for the first alert. `reason`: a sentence."""

    alert: UUID
    incident: UUID
    overlap: float
    reason: str


def propose_incidents(
    alerts: Iterable[AlertFeatures],
    policy: GroupingPolicy = GroupingPolicy(),
    decisions: Iterable[Decision] = (),
) -> list[Placement]:
    """Place alerts, oldest first."""
    grouper = Grouper(policy, decisions)
    ordered = sorted(alerts, key=lambda alert: (alert.start, alert.id))
    return [grouper.place(alert) for alert in ordered]


class Grouper:
    """Places alerts in incidents."""

    def __init__(
        self, policy: GroupingPolicy = GroupingPolicy(), decisions: Iterable[Decision] = ()
    ) -> None:
        self._policy = policy
        self._decisions = Decisions(decisions)
        self._overlaps = Overlaps(policy.within)
        self._series_by_incident: dict[UUID, list[str]] = defaultdict(list)

    def put(self, alert: AlertFeatures, incident: UUID) -> None:
        """Take over where an alert is."""
        self._overlaps.count(alert)
        self._add(alert, incident)

    def place(self, alert: AlertFeatures) -> Placement:
        """Decide in which incident an alert is, and remember it."""
        self._overlaps.count(alert)
        placement = self._find(alert)
        self._add(alert, placement.incident)
        return placement

    def _add(self, alert: AlertFeatures, incident: UUID) -> None:
        self._overlaps.add(incident, alert.start, self._overlaps.weigh(alert))
        series = self._series_by_incident[incident]
        if alert.series not in series:
            series.append(alert.series)
        self._forget(alert.start - HISTORY)

    def _forget(self, before: Micros) -> None:
        self._overlaps.forget(before)
        for incident in list(self._series_by_incident):
            if self._overlaps.last(incident) is None:
                del self._series_by_incident[incident]

    def _find(self, alert: AlertFeatures) -> Placement:
        decided, apart = self._find_decided(alert)
        if decided is not None:
            return decided
        vectors = self._overlaps.weigh(alert)
        overlaps = self._overlaps.compare(vectors, alert.start, self._policy.within)
        best: tuple[float, int, UUID, Kind] | None = None
        for incident, by_kind in overlaps.items():
            if incident in apart:
                continue
            kind = max(by_kind, key=lambda kind: (by_kind[kind], -KINDS.index(kind)))
            last = self._overlaps.last(incident)
            assert last is not None
            best = max(best or (0.0, 0, incident, kind), (by_kind[kind], last, incident, kind))
        if best is None or best[0] < self._policy.threshold:
            return Placement(alert.id, make_incident_id(alert.id), 0.0, "the first alert")
        overlap, last, incident, kind = best
        shared = self._overlaps.shared(vectors, incident, kind)
        reason = describe_overlap(alert.start - last, kind, shared, overlap)
        return Placement(alert.id, incident, overlap, reason)

    def _find_decided(self, alert: AlertFeatures) -> tuple[Placement | None, set[UUID]]:
        """Where a decision places an alert; and the incidents that one keeps it apart from."""
        together: list[tuple[Decision, UUID]] = []
        apart: set[UUID] = set()
        for incident, series in self._series_by_incident.items():
            last = self._overlaps.last(incident)
            if last is None or abs(alert.start - last) > self._policy.within:
                continue
            decision = self._decisions.find(alert.series, series)
            if decision is not None and decision.kind == "merge":
                together.append((decision, incident))
            elif decision is not None:
                apart.add(incident)
        if not together:
            return None, apart
        decision, incident = max(together, key=lambda entry: (entry[0].at, entry[1]))
        return Placement(alert.id, incident, 1.0, describe_decision(decision)), apart
