"""Slack: blocks within the published limits, threads and edits."""

from typing import Any

import pytest

from moirae.errors import DeliveryFailed
from moirae.notify.channels.slack import (
    make_api_request,
    read_thread,
    render_slack,
    split_text,
)
from moirae.notify.delivery import Answer
from moirae.notify.inbound.acknowledgements import make_group_token
from tests.unit.moirae.notify.channels.contents import make_message_content, make_receiver

HOOK = {"slack": {"webhook": "http://x/"}}
BOT = {"slack": {"token": "xoxb-1", "channel": "#ops"}}


def check_blocks(message: dict[str, Any]) -> None:
    """Slack's published limits."""
    assert 0 < len(message["text"]) <= 4_000
    assert 0 < len(message["blocks"]) <= 50
    for block in message["blocks"]:
        match block["type"]:
            case "header":
                assert block["text"]["type"] == "plain_text"
                assert 0 < len(block["text"]["text"]) <= 150
            case "section":
                assert block["text"]["type"] == "mrkdwn"
                assert 0 < len(block["text"]["text"]) <= 3_000
            case "actions":
                assert 0 < len(block["elements"]) <= 25
                for element in block["elements"]:
                    assert len(element["text"]["text"]) <= 75
                    assert len(element.get("url", "")) <= 3_000
                    assert len(element.get("value", "")) <= 2_000
            case other:
                raise AssertionError(other)


@pytest.mark.parametrize(
    "summary", ["disk full", "x" * 1_000_000, "&<>" * 5_000, "a\nb\n" * 4_000, "`code` <!channel>"]
)
def test_blocks_are_within_the_limits(summary: str) -> None:
    content = make_message_content(annotations={"summary": summary}, label="`x`\n<@U1>")
    message = render_slack(make_receiver(**HOOK), content)
    check_blocks(message)
    text = "".join(b["text"]["text"] for b in message["blocks"] if b["type"] == "section")
    assert "<!" not in text
    assert "<@" not in text


def test_devices_show_what_the_alert_is_about() -> None:
    content = make_message_content(annotations={"summary": "disk full <a>"})
    message = render_slack(make_receiver(**HOOK), content)
    assert message["text"] == "[FIRING:1] Disk a: disk full &lt;a&gt;"
    assert message["blocks"][1]["text"]["text"].startswith("*disk full &lt;a&gt;*\n`host=a`")
    content["alerts"] *= 2
    assert render_slack(make_receiver(**HOOK), content)["text"] == "[FIRING:2] Disk a"


def test_text_is_cut_at_lines_and_not_inside_of_an_escape() -> None:
    assert split_text("aaa\nbbb\nccc", 8) == ["aaa\nbbb", "ccc"]
    assert split_text("aaaa&lt;bbbb", 6) == ["aaaa", "&lt;bb", "bb"]


def test_later_messages_follow_or_edit_the_first() -> None:
    content = make_message_content()

    def request(update: str, cause: str, thread: str | None) -> tuple[str, Any, Any]:
        receiver = make_receiver(**BOT, update=update)
        method, arguments = make_api_request(receiver, content, cause, thread)
        return method, arguments.get("thread_ts"), arguments.get("ts")

    assert request("thread", "first", "C1 1.5") == ("chat.postMessage", None, None)
    assert request("thread", "change", "C1 1.5") == ("chat.postMessage", "1.5", None)
    assert request("edit", "change", "C1 1.5") == ("chat.update", None, "1.5")
    assert request("new", "change", "C1 1.5") == ("chat.postMessage", None, None)
    assert request("edit", "change", None) == ("chat.postMessage", None, None)


def test_answer_of_the_api_says_whether_the_message_was_taken() -> None:
    body = b'{"ok": true, "channel": "C1", "ts": "1.5"}'
    assert read_thread(Answer(200, {}, body)) == "C1 1.5"
    with pytest.raises(DeliveryFailed, match="invalid_blocks") as caught:
        read_thread(Answer(200, {}, b'{"ok": false, "error": "invalid_blocks"}'))
    assert caught.value.is_rejected
    with pytest.raises(DeliveryFailed, match="not_in_channel") as caught:
        read_thread(Answer(200, {}, b'{"ok": false, "error": "not_in_channel"}'))
    assert not caught.value.is_rejected


def test_firing_message_has_a_button_if_its_press_can_be_verified() -> None:
    target = {"webhook": "https://hooks.slack.com/x", "signing_secret": "s"}
    content = make_message_content()
    rendered = render_slack(make_receiver(slack=target), content)
    check_blocks(rendered)
    (button,) = [
        element
        for block in rendered["blocks"]
        for element in block.get("elements", ())
        if element["action_id"] == "acknowledge"
    ]
    assert button["value"] == make_group_token(content["groupKey"])
    plain = render_slack(make_receiver(slack={"webhook": "https://hooks.slack.com/x"}), content)
    assert "acknowledge" not in str(plain)
