"""Alerts, routes and times for the tests of what decides about notifications."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid5

from moirae.config import Route
from moirae.notify.routing.alert import NotifiedAlert
from moirae.notify.routing.grouping import Grouping, Policy, ReceiverPolicy
from moirae.notify.routing.message import Message
from moirae.notify.routing.muting import Muting
from moirae.notify.routing.tree import RouteNode, build_tree

START = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
_NAMESPACE = UUID(int=1)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def make_tree(*routes: Mapping[str, Any]) -> RouteNode:
    return build_tree([Route.model_validate(route) for route in routes])


def make_alert(
    name: str, seconds: float = 0.0, ended: float | None = None, **labels: Any
) -> NotifiedAlert:
    """An alert that began `seconds` after the start; its labels are its identity."""
    seconds = float(seconds)
    flags = {key: labels.pop(key) for key in ("is_acknowledged", "version") if key in labels}
    number = uuid5(_NAMESPACE, f"{name} {sorted(labels.items())} {seconds}")
    return NotifiedAlert(
        id=number,
        eid=number,
        rule=f"g/{name}",
        member=f"{name} {sorted(labels.items())}",
        labels={"alertname": name, **labels},
        annotations={},
        starts_at=at(seconds),
        raised_at=at(seconds),
        ends_at=None if ended is None else at(ended),
        end_reason=None if ended is None else "ended",
        **{"version": "v", **flags},
    )


def make_grouping(
    *routes: Mapping[str, Any], muting: Muting | None = None, **receivers: Any
) -> Grouping:
    policies = {name: ReceiverPolicy(**options) for name, options in receivers.items()}
    policy = Policy(make_tree(*routes), policies)
    return Grouping(policy, muting or Muting([]), START)


def run(grouping: Grouping, until: float, step: float = 0.5) -> list[tuple[float, str, list[str]]]:
    """The messages until a time: when, to whom, alerts with their states."""
    messages: list[tuple[float, str, list[str]]] = []
    now = START
    while now <= at(until):
        for message in grouping.flush_due(now):
            seconds = (message.planned_at - START).total_seconds()
            messages.append((seconds, message.receiver, describe(message)))
        now += timedelta(seconds=step)
    return messages


def describe(message: Message) -> list[str]:
    return [
        f"{alert.labels['alertname']} {'resolved' if alert.is_resolved else 'firing'}"
        for alert in message.alerts
    ]
