"""Webhooks: Alertmanager's messages, version 4."""

import hashlib
from collections.abc import Mapping
from functools import cache
from typing import Any

import orjson

from moirae.notify.messages.content import find_common


def render_webhook(content: Mapping[str, Any], max_alerts: int = 0) -> dict[str, Any]:
    """A message as Alertmanager sends it. `max_alerts`: more are left out; 0: none is."""
    alerts = content["alerts"]
    shown = alerts[:max_alerts] if max_alerts else alerts
    return {
        "receiver": content["receiver"],
        "status": content["status"],
        "alerts": shown,
        "groupLabels": content["groupLabels"],
        "commonLabels": find_common([alert["labels"] for alert in alerts]),
        "commonAnnotations": find_common([alert["annotations"] for alert in alerts]),
        "externalURL": content["externalURL"],
        "version": "4",
        "groupKey": content["groupKey"],
        "truncatedAlerts": len(alerts) - len(shown),
    }


def encode_webhook(content: Mapping[str, Any], max_alerts: int = 0) -> bytes:
    """The body of a request."""
    return orjson.dumps(render_webhook(content, max_alerts))


def make_dedup_key(workspace: str, number: int | None) -> str:
    """A key by which a receiver recognises a message that is delivered again."""
    if number is None:
        return ""
    return f"{_hash_workspace(workspace)}-{number}"


@cache
def _hash_workspace(workspace: str) -> str:
    return hashlib.sha256(workspace.encode()).hexdigest()[:16]
