"""The content of messages, as the outbox stores it and channels render it. No I/O."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from moirae.notify.routing.alert import NotifiedAlert
from moirae.notify.routing.message import Message

_NO_TIME = "0001-01-01T00:00:00Z"  # the end of an alert that fires, as Alertmanager writes it
SUMMARY_ALERT = "NotificationSummary"


def format_time(time: datetime | None) -> str:
    """A time as Go writes it: RFC 3339 without zeros at the end of the fraction."""
    if time is None:
        return _NO_TIME
    text = time.astimezone(UTC).replace(tzinfo=None).isoformat()
    return (text.rstrip("0") if time.microsecond else text) + "Z"


def make_content(
    message: Message, public_url: str, history: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """A message. `history`: what is known of alerts by ID, see `moirae.notify.messages.answers`."""
    alerts = [
        describe_alert(alert, public_url, history.get(str(alert.id), {}))
        for alert in message.alerts
    ]
    return {
        "receiver": message.receiver,
        "status": message.status,
        "cause": message.cause,
        "groupKey": message.group_key,
        "groupLabels": dict(message.group_labels),
        "externalURL": public_url,
        "alerts": alerts,
    }


def describe_alert(
    alert: NotifiedAlert, public_url: str, history: Mapping[str, Any]
) -> dict[str, Any]:
    """An alert as in Alertmanager's webhook messages; what Moirae adds is under one key."""
    link = f"{public_url}/alerts/{alert.id}"
    details: dict[str, Any] = {
        "id": str(alert.id),
        "event": str(alert.eid),
        "rule": alert.rule,
        "link": link,
    }
    if alert.end_reason is not None:
        details["reason"] = alert.end_reason
    if alert.withdrawn_by is not None:
        details["withdrawn_by"] = alert.withdrawn_by
    if alert.is_late:
        details["late"] = True
    if alert.is_restored:
        details["restored"] = True
    return {
        "status": "resolved" if alert.is_resolved else "firing",
        "labels": dict(alert.labels),
        "annotations": dict(alert.annotations),
        "startsAt": format_time(alert.starts_at),
        "endsAt": format_time(alert.ends_at),
        "generatorURL": link,
        "fingerprint": alert.fingerprint,
        "moirae": {**details, **history},
    }


def make_summary_content(
    receiver: str, summary: Mapping[str, Any], public_url: str, now: datetime, what: str
) -> dict[str, Any]:
    """A message that counts others. `what`: why they were not sent one by one."""
    rules = ", ".join(f"{rule}: {number}" for rule, number in summary["rules"].items())
    if summary["more_rules"]:
        rules += f" and {summary['more_rules']} more rules"
    counts = f"{summary['firing']} firing, {summary['resolved']} resolved"
    labels = {"alertname": SUMMARY_ALERT, "receiver": receiver}
    link = f"{public_url}/receivers/{quote(receiver, safe='')}"
    status = "firing" if summary["firing"] else "resolved"
    alert = {
        "status": status,
        "labels": labels,
        "annotations": {
            "summary": f"{summary['firing'] + summary['resolved']} more like this: {counts}",
            "description": f"{what} {rules}",
        },
        "startsAt": format_time(now),
        "endsAt": _NO_TIME if status == "firing" else format_time(now),
        "generatorURL": link,
        "fingerprint": "",
        "moirae": {"summary": {**summary, "worst": len(summary["worst"])}, "link": link},
    }
    return {
        "receiver": receiver,
        "status": status,
        "cause": "summary",
        "groupKey": f"moirae/summary/{receiver}",
        "groupLabels": labels,
        "externalURL": public_url,
        "alerts": [alert, *summary["worst"]],
    }


def find_common(mappings: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The entries that all mappings have."""
    if not mappings:
        return {}
    common = dict(mappings[0])
    for mapping in mappings[1:]:
        common = {name: value for name, value in common.items() if mapping.get(name) == value}
    return common


def list_alert_ids(message: Message) -> list[tuple[Any, str]]:
    """The alerts that a message names, with their states."""
    return list(_iterate_ids(message.alerts))


def _iterate_ids(alerts: Iterable[NotifiedAlert]) -> Iterable[tuple[Any, str]]:
    for alert in alerts:
        yield alert.id, "resolved" if alert.is_resolved else "firing"
