"""Test messages to receivers, and previews of real ones."""

from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any
from uuid import UUID, uuid4

import orjson

import sql
from archiver.clock import utc_now
from moirae.config import Receiver, Settings
from moirae.errors import NotFound, UsageError
from moirae.notify.channels import (
    ChannelContext,
    make_mail,
    make_sender,
    render_body,
    render_pagerduty,
    render_slack,
    render_title,
    render_webhook,
)
from moirae.notify.delivery import Delivery, HostPolicy
from moirae.notify.messages.answers import find_history
from moirae.notify.messages.content import make_content
from moirae.notify.routing.alert import NotifiedAlert
from moirae.notify.routing.intake import describe_row
from moirae.notify.routing.message import Cause, Message
from sql.notifications import NotifyStateGateway


def find_receiver(settings: Settings, name: str) -> Receiver:
    """A declared receiver. Raises `NotFound`."""
    receiver = settings.receivers.get(name)
    if receiver is None:
        names = ", ".join(sorted(settings.receivers)) or "none"
        raise NotFound(f"no receiver {name!r} in {settings.file.name}; declared: {names}")
    return receiver


def send_test(settings: Settings, name: str) -> None:
    """Deliver a test message to a receiver, by this process. Raises `DeliveryFailed`."""
    receiver = find_receiver(settings, name)
    now = utc_now()
    number = uuid4()
    alert = NotifiedAlert(
        id=number,
        eid=number,
        rule="moirae/Test",
        version="test",
        member=str(number),
        labels={"alertname": "Test", "severity": "info", "receiver": name},
        annotations={"summary": "A test message of Moirae: nothing is wrong."},
        starts_at=now,
        raised_at=now,
    )
    content = _make_content(settings, name, alert, "test", {})
    delivery = Delivery(
        id=None,
        receiver=name,
        group_key=f"moirae/test/{number}",
        content=content,
        created_at=now,
        cause="first",
    )
    context = ChannelContext(
        HostPolicy(settings.allow_hosts), sha256(str(settings.file).encode()).hexdigest()
    )
    make_sender(receiver, context)(delivery)


def preview_message(
    settings: Settings,
    connection: sql.Connection,
    name: str,
    alert_id: UUID,
    is_resolved: bool = False,
) -> str:
    """The message that a receiver would get about a stored alert that fires, as text.

    `is_resolved`: the one about its end. Raises `UsageError`.
    """
    receiver = find_receiver(settings, name)
    rows = NotifyStateGateway(connection).list_alerts([alert_id])
    if not rows:
        raise UsageError(f"no alert {alert_id}")
    now = utc_now()
    alert = describe_row(rows[0], now)
    if not is_resolved:
        alert = replace(alert, ends_at=None, end_reason=None, withdrawn_by=None)
    elif alert.ends_at is None:
        alert = replace(alert, ends_at=now, end_reason="ended")
    content = _make_content(settings, name, alert, "first", find_history(connection, [alert]))
    return render_preview(receiver, content)


def render_preview(receiver: Receiver, content: Mapping[str, Any]) -> str:
    """What is sent to a receiver, without its secrets."""
    match receiver.channel:
        case "webhook":
            return _to_text(render_webhook(content, receiver.max_alerts))
        case "slack":
            return _to_text(render_slack(receiver, content))
        case "pagerduty":
            return _to_text({**render_pagerduty(receiver, content), "routing_key": "…"})
        case "email":
            delivery = Delivery(
                id=None,
                receiver=content["receiver"],
                group_key=content["groupKey"],
                content=content,
                created_at=utc_now(),
            )
            return make_mail(receiver, delivery, "preview").as_string()
    return f"{render_title(receiver, content)}\n\n{render_body(receiver, content)}"


def _make_content(
    settings: Settings,
    receiver: str,
    alert: NotifiedAlert,
    cause: Cause,
    history: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    message = Message(
        receiver=receiver,
        group_key='{}:{alertname="' + alert.labels.get("alertname", "") + '"}',
        group_labels={"alertname": alert.labels.get("alertname", "")},
        alerts=[alert],
        cause=cause,
        planned_at=utc_now(),
    )
    return make_content(message, settings.server.public_url, history)


def _to_text(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
