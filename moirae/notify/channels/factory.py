"""Makes what delivers messages to a receiver."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

import orjson

from moirae.config import Receiver
from moirae.notify.channels.apprise_channel import send_by_apprise
from moirae.notify.channels.email import (
    AcceptedAddresses,
    describe_refused,
    make_mail,
    send_mail,
)
from moirae.notify.channels.pagerduty import render_pagerduty
from moirae.notify.channels.slack import (
    has_lost_message,
    make_api_request,
    read_thread,
    render_slack,
)
from moirae.notify.channels.threads import ThreadMemory
from moirae.notify.channels.webhook import encode_webhook, make_dedup_key
from moirae.notify.delivery import Delivery, HostPolicy, HttpClient, Send

_TIMEOUT = timedelta(seconds=10)
_APPRISE_TIMEOUT = timedelta(seconds=30)
_JSON = {"Content-Type": "application/json; charset=utf-8", "User-Agent": "Moirae"}


@dataclass(frozen=True)
class ChannelContext:
    """What channels need beside the receiver. `workspace`: names the workspace in dedup keys."""

    hosts: HostPolicy
    workspace: str
    threads: ThreadMemory = field(default_factory=lambda: ThreadMemory({}))
    accepted: AcceptedAddresses = field(default_factory=AcceptedAddresses)


def make_sender(receiver: Receiver, context: ChannelContext) -> Send:
    """What delivers messages to a receiver, for one thread."""
    makers = {
        "webhook": _make_webhook_sender,
        "slack": _make_slack_sender,
        "email": _make_email_sender,
        "pagerduty": _make_pagerduty_sender,
        "apprise": _make_apprise_sender,
    }
    return makers[receiver.channel](receiver, context)


def _find_timeout(receiver: Receiver, default: timedelta = _TIMEOUT) -> float:
    return (receiver.timeout or default).total_seconds()


def _make_webhook_sender(receiver: Receiver, context: ChannelContext) -> Send:
    client = HttpClient(context.hosts)
    assert receiver.webhook is not None
    url = receiver.webhook.get_secret_value()

    def send(delivery: Delivery) -> str | None:
        headers: Mapping[str, str] = {**_JSON, "Content-Type": "application/json"}
        if delivery.id is not None:
            key = make_dedup_key(context.workspace, delivery.id)
            headers = {**headers, "Idempotency-Key": key}
        body = encode_webhook(delivery.content, receiver.max_alerts)
        client.post(url, body, headers, timeout=_find_timeout(receiver))
        return None

    return send


def _make_slack_sender(receiver: Receiver, context: ChannelContext) -> Send:
    client = HttpClient(context.hosts)
    target = receiver.slack
    assert target is not None
    timeout = _find_timeout(receiver)

    def send_by_webhook(delivery: Delivery) -> str | None:
        assert target.webhook is not None
        body = orjson.dumps(render_slack(receiver, delivery.content))
        client.post(target.webhook.get_secret_value(), body, _JSON, timeout=timeout)
        return None

    def send_by_bot(delivery: Delivery) -> str | None:
        assert target.token is not None
        first = context.threads.get(delivery.receiver, delivery.group_key)
        method, arguments = make_api_request(receiver, delivery.content, delivery.cause, first)
        headers = {**_JSON, "Authorization": f"Bearer {target.token.get_secret_value()}"}
        answer = client.post(
            f"{target.api}/{method}", orjson.dumps(arguments), headers, timeout=timeout
        )
        if first is not None and has_lost_message(answer):
            first = None
            method, arguments = make_api_request(receiver, delivery.content, delivery.cause, None)
            answer = client.post(
                f"{target.api}/{method}", orjson.dumps(arguments), headers, timeout=timeout
            )
        thread = read_thread(answer)
        if thread is not None and (first is None or delivery.cause == "first"):
            context.threads.put(delivery.receiver, delivery.group_key, thread)
            return thread
        return None

    return send_by_bot if target.webhook is None else send_by_webhook


def _make_email_sender(receiver: Receiver, context: ChannelContext) -> Send:
    target = receiver.email
    assert target is not None

    def send(delivery: Delivery) -> str | None:
        assert target is not None
        mail = make_mail(receiver, delivery, make_dedup_key(context.workspace, delivery.id))
        addresses = context.accepted.list_missing(delivery, target.to)
        refused = send_mail(target, mail, context.hosts, _find_timeout(receiver), addresses)
        if refused:
            context.accepted.add(delivery, set(addresses) - refused.keys())
            raise describe_refused(target, refused)
        return None

    return send


def _make_pagerduty_sender(receiver: Receiver, context: ChannelContext) -> Send:
    client = HttpClient(context.hosts)
    target = receiver.pagerduty
    assert target is not None

    def send(delivery: Delivery) -> str | None:
        assert target is not None
        body = orjson.dumps(render_pagerduty(receiver, delivery.content))
        client.post(target.url, body, _JSON, timeout=_find_timeout(receiver))
        return None

    return send


def _make_apprise_sender(receiver: Receiver, context: ChannelContext) -> Send:
    def send(delivery: Delivery) -> str | None:
        timeout = _find_timeout(receiver, _APPRISE_TIMEOUT)
        send_by_apprise(receiver, delivery, context.hosts, timeout)
        return None

    return send
