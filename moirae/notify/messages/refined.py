"""Refined history: messages about groups that fire on, once what history says of them has changed."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import sql
from moirae.config import Receiver
from moirae.notify.messages.answers import find_history_of
from moirae.notify.routing.grouping import AlertGroup, Grouping
from sql.notifications import LastMessageRow, NotificationGateway

_MAX_GROUPS = 500  # that are looked at in one round


class RefinedHistory:
    """Makes the contents of messages of cause `refined`."""

    def __init__(self, connection: sql.Connection) -> None:
        self._connection = connection
        self._gateway = NotificationGateway(connection)

    def make_due(
        self, grouping: Grouping, receivers: Mapping[str, Receiver], now: datetime
    ) -> list[tuple[LastMessageRow, Mapping[str, Any]]]:
        """The last messages of groups whose history has changed since, with their contents now.

        A group has one at most in each `group_interval`.
        """
        names = [name for name, declared in receivers.items() if declared.refined == "if_changed"]
        groups = {
            (group.node.options.receiver, group.key): group
            for group in grouping.groups
            if group.node.options.receiver in names and not group.node.is_muted(now)
        }
        if not groups:
            return []
        due: list[tuple[LastMessageRow, Mapping[str, Any]]] = []
        for row in self._gateway.list_last(names, limit=_MAX_GROUPS):
            group = groups.get((row.receiver, row.group_key))
            if group is None or row.created_at + group.node.options.group_interval > now:
                continue
            firing = _list_firing(row.content, group, grouping, now)
            content = refine(row.content, firing, find_history_of(self._connection, firing))
            if content is not None:
                due.append((row, content))
        return due


def _list_firing(
    content: Mapping[str, Any], group: AlertGroup, grouping: Grouping, now: datetime
) -> dict[UUID, UUID]:
    """The alerts of a message that still fire and are not held back, with their first events."""
    members = grouping.muting.select_audible(group.members.values(), now)
    events = {alert.id: alert.eid for alert in members if not alert.is_resolved}
    named = [UUID(alert["moirae"]["id"]) for alert in content["alerts"]]
    return {alert_id: events[alert_id] for alert_id in named if alert_id in events}


def refine(
    content: Mapping[str, Any],
    firing: Mapping[UUID, UUID],
    history: Mapping[str, Mapping[str, Any]],
) -> Mapping[str, Any] | None:
    """A message with its alerts that fire and their history now; None: it says nothing else.

    `history`: by alert, see `moirae.notify.messages.answers`.
    """
    alerts: list[Mapping[str, Any]] = []
    has_changed = False
    for alert in content["alerts"]:
        details = alert["moirae"]
        if UUID(details["id"]) not in firing:
            continue
        present = history.get(details["id"], {})
        has_changed = has_changed or summarize(present) != summarize(details)
        alerts.append({**alert, "moirae": {**details, **present}})
    if not has_changed:
        return None
    return {**content, "status": "firing", "cause": "refined", "alerts": alerts}


def summarize(details: Mapping[str, Any]) -> Sequence[Any]:
    """What of the history of an alert a person would act on, for comparison.

    Not how much was read, and no figures that move with every piece that is read.
    """
    similar = [(hit.get("event"), hit.get("resolution")) for hit in details.get("similar", ())]
    verdicts = {name: norm.get("normal") for name, norm in details.get("norm", {}).items()}
    resolutions = [entry["tag"] for entry in details.get("resolution", ())]
    return [similar, verdicts, resolutions[:1]]
