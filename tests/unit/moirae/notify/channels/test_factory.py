"""What delivers messages to a receiver."""

import json
from datetime import UTC, datetime

from moirae.notify.channels.factory import ChannelContext, make_sender
from moirae.notify.delivery import Delivery, HostPolicy
from tests.receivers import Received, fake_receiver
from tests.unit.moirae.notify.channels.contents import make_message_content, make_receiver


def make_delivery(number: int, cause: str) -> Delivery:
    return Delivery(
        id=number,
        receiver="ops",
        group_key="g",
        content=make_message_content(),
        created_at=datetime.now(UTC),
        cause=cause,
    )


def test_message_that_cannot_be_edited_any_more_is_posted_again() -> None:
    def answer(request: Received) -> tuple[int, dict[str, str], bytes]:
        if request.path.endswith("chat.update"):
            return 200, {}, b'{"ok": false, "error": "message_not_found"}'
        posted = sum(earlier.path.endswith("postMessage") for earlier in slack.requests)
        return 200, {}, json.dumps({"ok": True, "channel": "C1", "ts": f"{posted}.0"}).encode()

    with fake_receiver() as slack:
        slack.answer = answer
        target = {"token": "xoxb-1", "channel": "#ops", "api": slack.url.rstrip("/")}
        context = ChannelContext(HostPolicy(None), "workspace")
        send = make_sender(make_receiver(slack=target, update="edit"), context)
        assert send(make_delivery(1, "first")) == "C1 0.0"
        assert send(make_delivery(2, "change")) == "C1 1.0"
        methods = [request.path.rpartition("/")[2] for request in slack.requests]
    assert methods == ["chat.postMessage", "chat.update", "chat.postMessage"]
    assert context.threads.get("ops", "g") == "C1 1.0"
