"""Acknowledgements that Slack and PagerDuty report become those of alerts."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal

from pydantic import SecretStr

import sql
from moirae.alerts import add_note
from moirae.config import Settings
from moirae.errors import NotFound
from moirae.notify import (
    Acknowledgement,
    make_group_token,
    read_declared,
    read_pagerduty,
    read_slack,
)
from sql.access import AuditGateway
from sql.alerts import NewAlertNote
from sql.notifications import NotificationGateway

Sender = Literal["slack", "pagerduty"]


def read_acknowledgement(
    settings: Settings, sender: Sender, receiver: str, headers: Mapping[str, str], body: bytes
) -> Acknowledgement | None:
    """What a signed request acknowledges; None: nothing. Raises `MoiraeError`.

    `headers`: with names in lower case.
    """
    secret = _find_secret(read_declared(settings), sender, receiver)
    if secret is None:
        raise NotFound("no receiver with a signing_secret has this address")
    read = read_slack if sender == "slack" else read_pagerduty
    return read(secret.get_secret_value(), headers, body, datetime.now(UTC))


def _find_secret(settings: Settings, sender: Sender, name: str) -> SecretStr | None:
    receiver = settings.receivers.get(name)
    if receiver is None:
        return None
    target = receiver.slack if sender == "slack" else receiver.pagerduty
    return None if target is None else target.signing_secret


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
        alerts = gateway.list_unacknowledged(receiver, group_key)
        for alert_id in alerts:
            author = acknowledgement.author
            note = NewAlertNote(kind="ack", author=author, text=f"acknowledged by {author}")
            add_note(connection, alert_id, note)
        if alerts:
            arguments = {"receiver": receiver, "alerts": list(map(str, alerts))}
            AuditGateway(connection).insert(
                acknowledgement.author, "api", "callbacks.acknowledge_group", arguments
            )
    return len(alerts)
