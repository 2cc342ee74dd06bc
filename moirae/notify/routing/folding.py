"""Storms: messages beyond a receiver's limit are counted in summaries. No I/O."""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from moirae.notify.routing.message import Message

_WINDOW = timedelta(minutes=1)
_PAGE = "page"
# From the worst; an unknown severity is between warning and info.
_SEVERITIES = ("page", "critical", "error", "warning", "", "info")
_MAX_RULES = 20
_MAX_WORST = 3


class Budget:
    """Messages of each receiver within the last minute.

    Of the limit, one message is left for a summary, of which there is at most one a minute. The
    first message of a group that pages somebody is sent beyond the limit, too.
    """

    def __init__(self, limit: int, times: Mapping[str, Sequence[datetime]]) -> None:
        self.limit = limit
        self._times = {receiver: deque(sorted(values)) for receiver, values in times.items()}
        self._summaries: dict[str, datetime] = {}

    def admits(self, message: Message) -> bool:
        """Whether a message is sent as it is; counts it if so."""
        if is_first_page(message):
            self.add(message.receiver, message.planned_at)
            return True
        return self.admits_other(message.receiver, message.planned_at)

    def admits_other(self, receiver: str, now: datetime) -> bool:
        """Whether a message is sent that pages nobody for the first time; counts it if so."""
        if self.count(receiver, now) >= max(self.limit - 1, 1):
            return False
        self.add(receiver, now)
        return True

    def admits_summary(self, receiver: str, now: datetime) -> bool:
        """Whether a summary is sent now; counts it if so."""
        last = self._summaries.get(receiver)
        if last is not None and last > now - _WINDOW:
            return False
        self._summaries[receiver] = now
        return True

    def add(self, receiver: str, now: datetime) -> None:
        """Count a message."""
        self._times.setdefault(receiver, deque()).append(now)

    def count(self, receiver: str, now: datetime) -> int:
        """Messages within the last minute."""
        times = self._times.get(receiver)
        if not times:
            return 0
        while times and times[0] <= now - _WINDOW:
            times.popleft()
        return len(times)


def is_first_page(message: Message) -> bool:
    """Whether it is the first message of a group with an alert that pages somebody."""
    return message.cause == "first" and any(
        alert.labels.get("severity") == _PAGE for alert in message.alerts
    )


def rank_severity(severity: str | None) -> int:
    """0 for the worst."""
    name = severity or ""
    return _SEVERITIES.index(name if name in _SEVERITIES else "")


def summarize(contents: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What a summary says of folded messages: how many, of which rules, and the worst alerts."""
    messages = 0
    firing: dict[str, Mapping[str, Any]] = {}
    resolved: dict[str, Mapping[str, Any]] = {}
    for content in contents:
        messages += 1
        for alert in content["alerts"]:
            alert_id = alert["moirae"]["id"]
            firing.pop(alert_id, None)
            resolved.pop(alert_id, None)
            (firing if alert["status"] == "firing" else resolved)[alert_id] = alert
    alerts = [*firing.values(), *resolved.values()]
    rules = Counter(alert["moirae"]["rule"] for alert in alerts)
    worst = sorted(
        alerts,
        key=lambda alert: (
            alert["status"] != "firing",
            rank_severity(alert["labels"].get("severity")),
            alert["startsAt"],
        ),
    )
    return {
        "messages": messages,
        "firing": len(firing),
        "resolved": len(resolved),
        "rules": dict(rules.most_common(_MAX_RULES)),
        "more_rules": max(0, len(rules) - _MAX_RULES),
        "worst": worst[:_MAX_WORST],
    }
