"""Makes what delivers messages to a receiver."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from moirae.config import Receiver
from moirae.notify.channels.webhook import encode_webhook, make_dedup_key
from moirae.notify.delivery import Delivery, HostPolicy, HttpClient, Send

_TIMEOUT = timedelta(seconds=10)
_JSON = {"Content-Type": "application/json", "User-Agent": "Moirae"}


@dataclass(frozen=True)
class ChannelContext:
    """What channels need beside the receiver.

    `workspace`: names the workspace in dedup keys. `find_thread`: of the first message of a group,
    by receiver, group key and number of the message.
    """

    hosts: HostPolicy
    workspace: str
    find_thread: Callable[[str, str, int], str | None]


def make_sender(receiver: Receiver, context: ChannelContext) -> Send:
    """What delivers messages to a receiver, for one thread."""
    makers = {"webhook": _make_webhook_sender}
    return makers[receiver.channel](receiver, context)


def _find_timeout(receiver: Receiver, default: timedelta = _TIMEOUT) -> float:
    return (receiver.timeout or default).total_seconds()


def _make_webhook_sender(receiver: Receiver, context: ChannelContext) -> Send:
    client = HttpClient(context.hosts)
    assert receiver.webhook is not None
    url = receiver.webhook.get_secret_value()

    def send(delivery: Delivery) -> str | None:
        headers = _JSON
        if delivery.id is not None:
            key = make_dedup_key(context.workspace, delivery.id)
            headers = {**_JSON, "Idempotency-Key": key}
        body = encode_webhook(delivery.content, receiver.max_alerts)
        client.post(url, body, headers, timeout=_find_timeout(receiver))
        return None

    return send
