"""The alerts that fire now: which routes they take, and what holds them back."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import sql
from moirae.config import Settings
from moirae.notify.process.store import list_silences, read_active_alerts
from moirae.notify.routing.alert import NotifiedAlert
from moirae.notify.routing.muting import Muting
from moirae.notify.routing.policy import make_policy
from moirae.notify.routing.tree import RouteNode, find_routes
from sql.notifications import NotifyStateGateway


@dataclass(frozen=True)
class PresentAlert:
    """An alert that fires. `inhibited_by` None: no other alert inhibits it."""

    alert: NotifiedAlert
    nodes: Sequence[RouteNode]
    silenced_by: Sequence[UUID]
    inhibited_by: NotifiedAlert | None

    @property
    def is_held_back(self) -> bool:
        return bool(self.silenced_by) or self.inhibited_by is not None


def list_present_alerts(
    connection: sql.Connection, settings: Settings, now: datetime
) -> list[PresentAlert]:
    """All alerts that fire now, by the routes, silences and inhibitions in `settings`."""
    root = make_policy(settings).root
    muting = Muting(settings.inhibit_rules, list_silences(connection, now))
    alerts = read_active_alerts(NotifyStateGateway(connection), now)
    for alert in alerts:
        muting.put(alert)
    by_member = {alert.member: alert for alert in alerts}
    present = []
    for alert in alerts:
        inhibitor = muting.find_inhibitor(alert.labels)
        present.append(
            PresentAlert(
                alert,
                find_routes(root, alert.labels),
                muting.find_silences(alert.labels, now),
                None if inhibitor is None else by_member[inhibitor],
            )
        )
    return present
