"""Acknowledgements in Slack and PagerDuty: their signatures, and what they acknowledge. No I/O."""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qs

import orjson

from moirae.errors import RequestRejected

ACKNOWLEDGE_ACTION = "acknowledge"
"""The ID of the button of Slack's messages."""
_MAX_AGE = timedelta(minutes=5)  # of a signed request of Slack
_MAX_EVENT_AGE = timedelta(days=1)  # of an event of PagerDuty, which repeats deliveries that fail
_MAX_AUTHOR = 100  # characters
_REFUSED = "the signature is missing, invalid or old"


@dataclass(frozen=True)
class Acknowledgement:
    """Somebody looks after the alerts of a group. `group`: its token, see `make_group_token`.

    `at`: when, and so after which message; None: after the last one.
    """

    group: str
    author: str
    at: datetime | None = None


def make_group_token(group_key: str) -> str:
    """What stands for a group in other systems."""
    return hashlib.sha256(group_key.encode("utf-8", "replace")).hexdigest()


def read_slack(
    secret: str, headers: Mapping[str, str], body: bytes, now: datetime
) -> Acknowledgement | None:
    """The press of a button; None: another interaction. Raises `RequestRejected`."""
    sent_at = headers.get("x-slack-request-timestamp", "")
    signed = b"v0:" + sent_at.encode() + b":" + body
    _check_signature(secret, signed, "v0=", headers.get("x-slack-signature", ""))
    if not sent_at.isascii() or not sent_at.isdigit() or len(sent_at) > 12:
        raise RequestRejected(401, _REFUSED)
    if abs(now.timestamp() - int(sent_at)) > _MAX_AGE.total_seconds():
        raise RequestRejected(401, _REFUSED)
    return read_slack_payload(
        _read_json(parse_qs(body.decode("utf-8", "replace")).get("payload", [""])[0])
    )


def read_slack_payload(payload: Any) -> Acknowledgement | None:
    """The press of a button, whose sender is known; None: another interaction."""
    if not isinstance(payload, dict):
        return None
    for action in _list_of(payload.get("actions")):
        if action.get("action_id") == ACKNOWLEDGE_ACTION:
            user = payload.get("user")
            user = user if isinstance(user, dict) else {}
            name = user.get("username") or user.get("name") or user.get("id")
            return Acknowledgement(str(action.get("value")), describe_author(name, "Slack"))
    return None


def read_pagerduty(
    secret: str, headers: Mapping[str, str], body: bytes, now: datetime
) -> Acknowledgement | None:
    """An acknowledged incident; None: another event. Raises `RequestRejected`."""
    _check_signature(secret, body, "v1=", headers.get("x-pagerduty-signature", ""))
    event = _read_json(body).get("event")
    if not isinstance(event, dict):
        raise RequestRejected(400, "the body has no event")
    try:
        occurred_at = datetime.fromisoformat(str(event.get("occurred_at")))
        is_old = now - occurred_at > _MAX_EVENT_AGE
    except (ValueError, TypeError):
        raise RequestRejected(400, "occurred_at: not a time with a zone") from None
    if is_old:
        raise RequestRejected(401, _REFUSED)
    incident = event.get("data")
    if event.get("event_type") != "incident.acknowledged" or not isinstance(incident, dict):
        return None
    agent = event.get("agent")
    name = agent.get("summary") or agent.get("id") if isinstance(agent, dict) else None
    return Acknowledgement(str(incident.get("incident_key")), describe_author(name, "PagerDuty"))


def _check_signature(secret: str, signed: bytes, prefix: str, signatures: str) -> None:
    """Raises `RequestRejected`. `signatures`: separated by commas while a secret is changed."""
    expected = prefix + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
    for signature in signatures.split(","):
        if hmac.compare_digest(signature.strip().encode(), expected.encode()):
            return
    raise RequestRejected(401, _REFUSED)


def _read_json(text: str | bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise RequestRejected(400, "the body is not JSON") from None
    if not isinstance(value, dict):
        raise RequestRejected(400, "the body is not a JSON object")
    return value


def _list_of(value: Any) -> list[dict[str, Any]]:
    """The objects of a list."""
    if not isinstance(value, list):
        return []
    return [entry for entry in value if isinstance(entry, dict)]


def describe_author(name: Any, system: str) -> str:
    """Who acknowledged in another system."""
    text = "".join(filter(str.isprintable, str(name or "somebody")))[:_MAX_AUTHOR]
    return f"{text} ({system})"
