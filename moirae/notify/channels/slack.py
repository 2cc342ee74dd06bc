"""Slack: incoming webhooks, and bots that follow messages in a thread or edit them."""

from collections.abc import Mapping
from typing import Any

import orjson

from moirae.config import Receiver
from moirae.errors import DeliveryFailed
from moirae.notify.channels.rendering import (
    escape_slack,
    find_link,
    render_body,
    render_title,
    to_line,
)
from moirae.notify.delivery import Answer
from moirae.notify.inbound import ACKNOWLEDGE_ACTION, make_group_token

# Limits of Slack's blocks and messages, in characters.
_MAX_HEADER = 150
_MAX_SECTION = 3_000
_MAX_BLOCKS = 50
_MAX_TEXT = 4_000
_MAX_SECTIONS = 10
# Answers of the Web API that are about the message.
_LOST_MESSAGE = frozenset("message_not_found cant_update_message edit_window_closed".split())
_REJECTIONS = _LOST_MESSAGE | frozenset(
    "invalid_blocks invalid_blocks_format msg_too_long no_text invalid_arguments".split()
)


def render_slack(receiver: Receiver, content: Mapping[str, Any]) -> dict[str, Any]:
    """A message in Slack's blocks, with a text for notifications of devices."""
    title = render_title(receiver, content)
    body = render_body(receiver, content, escape_slack, format_alert)
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": {"type": "plain_text", "text": title[:_MAX_HEADER]}}
    ]
    for text in split_text(body, _MAX_SECTION)[:_MAX_SECTIONS]:
        blocks.append({"type": "section", "text": {"type": "mrkdwn", "text": text}})
    link = find_link(content)
    if link.startswith(("http://", "https://")) and len(link) <= _MAX_SECTION:
        button = {
            "type": "button",
            "text": {"type": "plain_text", "text": "Open"},
            "url": link,
            "action_id": "open",
        }
        elements = [button, *_make_buttons(receiver, content)]
        blocks.append({"type": "actions", "elements": elements})
    return {"text": _make_notice(title, content), "blocks": blocks[:_MAX_BLOCKS]}


def _make_notice(title: str, content: Mapping[str, Any]) -> str:
    """What devices show of a message: its title, and what the only alert is about."""
    notice = title
    if len(content["alerts"]) == 1:
        summary = to_line(content["alerts"][0]["annotations"].get("summary", ""))
        notice = f"{title}: {summary}" if summary and summary not in title else title
    return escape_slack(notice)[:_MAX_TEXT]


def _make_buttons(receiver: Receiver, content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A button that acknowledges, where the answer of a press can be verified."""
    assert receiver.slack is not None
    target = receiver.slack
    if content["status"] != "firing" or not (target.signing_secret or target.app_token):
        return []
    return [
        {
            "type": "button",
            "text": {"type": "plain_text", "text": "Acknowledge"},
            "action_id": ACKNOWLEDGE_ACTION,
            "value": make_group_token(content["groupKey"]),
        }
    ]


def format_alert(alert: Mapping[str, Any]) -> str:
    """An alert in Slack's mrkdwn; its values are escaped."""
    lines = [f"*{to_line(alert['lead'], _MAX_SECTION)}*", *alert["texts"]]
    if "runbook_url" in alert["annotations"]:
        lines.append(f"runbook: {alert['annotations']['runbook_url']}")
    names = sorted(name for name in alert["labels"] if name != "alertname")
    lines.append(
        " ".join(f"`{_to_code(name)}={_to_code(alert['labels'][name])}`" for name in names)
    )
    lines.append(alert["period"])
    lines += [f"• {line}" for line in alert["history"]]
    lines.append(" · ".join(f"<{action['link']}|{action['label']}>" for action in alert["actions"]))
    return "\n".join(filter(None, lines))


def _to_code(text: str) -> str:
    """A text inside of backticks."""
    return text.replace("`", "'").replace("\n", " ")


def split_text(text: str, limit: int) -> list[str]:
    """Parts of at most `limit` characters, cut at line breaks and not inside of an escape."""
    parts: list[str] = []
    while len(text) > limit:
        cut = text.rfind("\n", 1, limit)
        if cut <= 0:
            cut = limit
            ampersand = text.rfind("&", max(0, cut - 5), cut)
            if ampersand > 0 and ";" not in text[ampersand:cut]:
                cut = ampersand
        parts.append(text[:cut])
        text = text[cut:].lstrip("\n")
    return [part for part in [*parts, text] if part.strip()]


def make_api_request(
    receiver: Receiver, content: Mapping[str, Any], cause: str, thread: str | None
) -> tuple[str, dict[str, Any]]:
    """The method of the Web API and its arguments. `thread`: the first message of the group."""
    assert receiver.slack is not None
    message = {"channel": receiver.slack.channel, **render_slack(receiver, content)}
    if thread is None or cause == "first":
        return "chat.postMessage", message
    if receiver.update == "edit":
        channel, _, timestamp = thread.partition(" ")
        return "chat.update", {**message, "channel": channel, "ts": timestamp}
    if receiver.update == "thread":
        return "chat.postMessage", {**message, "thread_ts": thread.partition(" ")[2]}
    return "chat.postMessage", message


def has_lost_message(answer: Answer) -> bool:
    """Whether the message that was to be edited is gone, or too old for it."""
    try:
        body = orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        return False
    return isinstance(body, dict) and body.get("error") in _LOST_MESSAGE


def read_thread(answer: Answer) -> str | None:
    """Channel and time of the message that was posted. Raises `DeliveryFailed`."""
    try:
        body = orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        raise DeliveryFailed("Slack's answer is not JSON") from None
    if not isinstance(body, dict) or not body.get("ok"):
        error = str(body.get("error") if isinstance(body, dict) else body)[:100]
        raise DeliveryFailed(
            f"Slack refuses the message: {error}", is_rejected=error in _REJECTIONS
        )
    if "channel" in body and "ts" in body:
        return f"{body['channel']} {body['ts']}"
    return None
