"""What links of messages do: a page without a login shows them, and acts once."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID, uuid4

import sql
from archiver.clock import utc_now
from moirae.errors import NotFound
from moirae.notify import format_labels, make_alert_labels, make_alert_matchers
from moirae.notify.inbound import ACTION_LABELS, acknowledge_alerts, hash_action_code
from sql.access import AuditGateway
from sql.notifications import ActionLinkGateway, ActionLinkRow, NewSilence, SilenceGateway

_OPERATION = "action_links.use_link"  # in the audit log
_SILENCE_DURATION = timedelta(hours=2)
LinkState = Literal["open", "used", "revoked", "expired", "ended"]


@dataclass(frozen=True, kw_only=True)
class LinkDescription:
    """A link. `state`: `ended`: its alert has. `label`: of its button."""

    state: LinkState
    action: str
    label: str
    alert: UUID
    name: str
    labels: str
    summary: str
    starts_at: datetime


def describe_link(connection: sql.Connection, code: str) -> LinkDescription:
    """What a link would do. Raises `NotFound`."""
    return _describe(_find(connection, code), utc_now())


def use_link(connection: sql.Connection, code: str) -> LinkDescription:
    """Do what a link says if it is open; returns its state before. Raises `NotFound`."""
    gateway = ActionLinkGateway(connection)
    with connection.transaction():
        row = _find(connection, code)
        description = _describe(row, utc_now())
        if description.state != "open":
            return description
        if not gateway.use(hash_action_code(code)):
            return _describe(_find(connection, code), utc_now())
        author = f"link in a message to {row.receiver}"
        arguments = {"alert": str(row.alert_id), "action": row.action, "receiver": row.receiver}
        if row.action == "acknowledge":
            acknowledge_alerts(connection, [row.alert_id], author, _OPERATION, arguments)
        else:
            _silence(connection, row, author)
            AuditGateway(connection).insert(author, "api", _OPERATION, arguments)
    return description


def _find(connection: sql.Connection, code: str) -> ActionLinkRow:
    row = ActionLinkGateway(connection).get(hash_action_code(code))
    if row is None:
        raise NotFound("no such link: it was cut off, or is older than its alert")
    return row


def _describe(row: ActionLinkRow, now: datetime) -> LinkDescription:
    labels = make_alert_labels(row.labels, row.key)
    return LinkDescription(
        state=find_state(row, now),
        action=row.action,
        label=ACTION_LABELS[row.action],
        alert=row.alert_id,
        name=labels.get("alertname", ""),
        labels=format_labels({name: labels[name] for name in labels if name != "alertname"}),
        summary=row.annotations.get("summary", ""),
        starts_at=row.starts_at,
    )


def find_state(row: ActionLinkRow, now: datetime) -> LinkState:
    """Whether a link acts, or why not."""
    if row.used_at is not None:
        return "used"
    if row.revoked_at is not None:
        return "revoked"
    if row.expires_at <= now:
        return "expired"
    return "open" if row.ends_at is None else "ended"


def _silence(connection: sql.Connection, row: ActionLinkRow, author: str) -> None:
    now = utc_now()
    SilenceGateway(connection).put(
        NewSilence(
            id=uuid4(),
            matchers=make_alert_matchers(row.labels, row.key),
            starts_at=now,
            ends_at=now + _SILENCE_DURATION,
            schedule=None,
            author=author,
            comment="by a link in a message",
        )
    )
