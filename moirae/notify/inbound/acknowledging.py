"""Stores acknowledgements of other systems as those of alerts."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import sql
from moirae.alerts import add_note
from moirae.notify.inbound.acknowledgements import Acknowledgement, make_group_token
from moirae.notify.inbound.listeners import Reading
from sql.access import AuditGateway
from sql.alerts import NewAlertNote
from sql.notifications import NotificationGateway


def acknowledge_group(
    connection: sql.Connection, receiver: str, acknowledgement: Acknowledgement
) -> int:
    """Acknowledge the alerts that fire of a group of a receiver; returns their number.

    An alert that somebody has acknowledged is left as it is: requests are delivered repeatedly.
    """
    gateway = NotificationGateway(connection)
    with connection.transaction():
        for group_key in gateway.list_group_keys(receiver):
            if make_group_token(group_key) == acknowledgement.group:
                break
        else:
            return 0
        alerts = gateway.list_unacknowledged(receiver, group_key, before=acknowledgement.at)
        if alerts:
            acknowledge_alerts(
                connection,
                alerts,
                acknowledgement.author,
                "callbacks.acknowledge_group",
                {"receiver": receiver, "alerts": list(map(str, alerts))},
            )
    return len(alerts)


def acknowledge_alerts(
    connection: sql.Connection,
    alerts: Sequence[UUID],
    author: str,
    operation: str,
    arguments: Mapping[str, Any],
) -> None:
    """Acknowledge alerts for who is no user, and audit it; part of a transaction."""
    for alert_id in alerts:
        note = NewAlertNote(kind="ack", author=author, text=f"acknowledged by {author}")
        add_note(connection, alert_id, note)
    AuditGateway(connection).insert(author, "api", operation, arguments)


def store_reading(connection: sql.Connection, reading: Reading) -> None:
    """Store whether the acknowledgements of receivers can be read."""
    gateway = NotificationGateway(connection)
    if reading.error is None:
        gateway.clear_unread(reading.receivers)
        return
    for receiver in reading.receivers:
        gateway.put_unread(receiver, reading.error)
