"""PagerDuty: Events API v2. A group of alerts is one incident, as Alertmanager has it."""

from collections.abc import Mapping
from typing import Any

import orjson

from moirae.config import Receiver
from moirae.notify.channels.rendering import describe_history, render_body, render_title
from moirae.notify.inbound import make_group_token
from moirae.notify.routing.folding import rank_severity

_MAX_SUMMARY = 1_024  # characters
_MAX_EVENT = 500 << 10  # bytes; PagerDuty takes 512 KiB
_MAX_BODY = 20_000  # characters
_SEVERITIES = {"page": "critical", "critical": "critical", "error": "error", "info": "info"}


def render_pagerduty(receiver: Receiver, content: Mapping[str, Any]) -> dict[str, Any]:
    """An event, with the secret routing key."""
    assert receiver.pagerduty is not None
    event: dict[str, Any] = {
        "routing_key": receiver.pagerduty.routing_key.get_secret_value(),
        "event_action": "trigger" if content["status"] == "firing" else "resolve",
        "dedup_key": make_group_token(content["groupKey"]),
    }
    alerts = content["alerts"]
    worst = min(alerts, key=lambda alert: rank_severity(alert["labels"].get("severity")))
    labels = content["groupLabels"]
    source = labels.get("host") or labels.get("instance") or content["externalURL"]
    history = [line for alert in alerts[:3] for line in describe_history(alert["moirae"])]
    event["payload"] = {
        "summary": render_title(receiver, content)[:_MAX_SUMMARY],
        "source": source[:_MAX_SUMMARY],
        "severity": _SEVERITIES.get(worst["labels"].get("severity", ""), "warning"),
        "custom_details": {
            "text": render_body(receiver, content)[:_MAX_BODY],
            "history": history[:30],
            "firing": sum(alert["status"] == "firing" for alert in alerts),
            "resolved": sum(alert["status"] == "resolved" for alert in alerts),
        },
    }
    event["client"] = "Moirae"
    event["client_url"] = content["externalURL"]
    event["links"] = [{"href": alerts[0]["moirae"]["link"], "text": "Alert"}]
    for action in alerts[0]["moirae"].get("actions", ()):
        event["links"].append({"href": action["link"], "text": action["label"]})
    if len(orjson.dumps(event)) > _MAX_EVENT:
        event["payload"]["custom_details"] = {"text": "too large; see the link"}
    return event
