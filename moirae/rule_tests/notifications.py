"""Compares the messages that a test expects with those that receivers would be sent."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from typing import NamedTuple

from archiver.times import from_micros, optional_datetime
from moirae.alerts import AlertingRule, FoldedAlert, describe_alert, make_alerting_rule
from moirae.config import Settings
from moirae.evaluation.plan import ActiveRule
from moirae.notify import make_alert_labels
from moirae.notify.routing.simulation import (
    Message,
    NotifiedAlert,
    make_member,
    simulate_messages,
)
from moirae.rule_tests.comparison import find_difference, format_row
from moirae.rule_tests.input_past import InputPast
from moirae.rule_tests.model import ExpectedMessageAlert, ExpectedNotification

_ALERTNAME = "alertname"


class RuleTestMessages:
    """The messages about the alerts of all rules that are tested together, once they are needed."""

    def __init__(self, settings: Settings, rules: Sequence[ActiveRule], past: InputPast) -> None:
        """`rules`: those whose alerts are known; alerts of the others inhibit nothing."""
        self._settings = settings
        self._rules = rules
        self._past = past

    def select(self, rules: Iterable[ActiveRule], until: datetime) -> list[Message]:
        """The messages up to a time, inclusive, in which alerts of some rules are."""
        names = {rule.name for rule in rules}
        return [
            message
            for message in self._messages
            if message.planned_at <= until and any(alert.rule in names for alert in message.alerts)
        ]

    @cached_property
    def _messages(self) -> Sequence[Message]:
        alerts: list[NotifiedAlert] = []
        past = self._past
        assert past.range.end is not None
        until = past.range.end - 1
        for rule in self._rules:
            alerting_rule = make_alerting_rule(rule.definition)
            for alert in past.alerts(rule, until):
                if alert.lifetime.fired is not None and not past.is_hidden(rule, alert):
                    alerts.append(_describe(rule, alerting_rule, alert))
        start, end = from_micros(past.start), from_micros(until)
        return simulate_messages(self._settings, alerts, start, end)


def _describe(rule: ActiveRule, alerting_rule: AlertingRule, alert: FoldedAlert) -> NotifiedAlert:
    description = describe_alert(alerting_rule, alert.first_event)
    lifetime, key = alert.lifetime, alert.first_event.key
    assert lifetime.fired is not None
    return NotifiedAlert(
        id=description.id,
        eid=description.eid,
        rule=rule.name,
        version=rule.version,
        member=make_member(rule.name, key),
        labels=make_alert_labels(alerting_rule.labels, key),
        annotations=description.annotations,
        starts_at=from_micros(lifetime.starts),
        raised_at=from_micros(lifetime.fired),
        ends_at=optional_datetime(lifetime.ended),
        end_reason=None if lifetime.ended is None else "ended",
    )


class MessageMatcher(NamedTuple):
    """Whether a message is an expected one. `alertname`: of the entry, for alerts without it."""

    alertname: str
    start: datetime
    is_subset: bool

    def matches(self, expected: ExpectedNotification, message: Message) -> bool:
        """Each thing that is expected holds."""
        at = message.planned_at - self.start
        if expected.receiver != message.receiver or expected.time not in (None, at):
            return False
        if expected.status not in (None, message.status):
            return False
        if expected.group_labels not in (None, dict(message.group_labels)):
            return False
        return expected.exp_alerts is None or self._match_alerts(
            expected.exp_alerts, message.alerts
        )

    def _match_alerts(
        self, expected: Sequence[ExpectedMessageAlert], alerts: Sequence[NotifiedAlert]
    ) -> bool:
        difference = find_difference(
            expected, alerts, self._matches_alert, allows_others=self.is_subset
        )
        return not difference

    def _matches_alert(self, expected: ExpectedMessageAlert, alert: NotifiedAlert) -> bool:
        labels = self.complete_labels(expected)
        if (expected.state == "resolved") != alert.is_resolved:
            return False
        if self.is_subset:
            return labels.items() <= alert.labels.items()
        return labels == alert.labels

    def complete_labels(self, expected: ExpectedMessageAlert) -> dict[str, object]:
        """Labels with the name of the rule."""
        return {_ALERTNAME: self.alertname, **expected.exp_labels}


def format_message(message: Message, start: datetime) -> str:
    """A message in a line, as a difference shows it."""
    alerts = ", ".join(
        f"{'resolved' if alert.is_resolved else 'firing'} {format_row(alert.labels)}"
        for alert in message.alerts
    )
    at = _format_offset(message.planned_at - start)
    group = format_row(message.group_labels)
    return f"{at} {message.receiver} {message.status} {group}: {alerts}"


def format_expected(expected: ExpectedNotification) -> str:
    """An expected message in a line; parts that may be any are left out."""
    parts = ["" if expected.time is None else _format_offset(expected.time)]
    parts += [expected.receiver, expected.status or ""]
    if expected.group_labels is not None:
        parts.append(format_row(expected.group_labels))
    text = " ".join(filter(None, parts))
    if expected.exp_alerts is None:
        return text
    alerts = [f"{alert.state} {format_row(alert.exp_labels)}" for alert in expected.exp_alerts]
    return f"{text}: {', '.join(alerts)}"


def _format_offset(offset: timedelta) -> str:
    """A time since the start; one before the start has no unit of the file's."""
    return f"{offset.total_seconds():g}s"
