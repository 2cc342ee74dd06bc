"""The built-in alert about rules that lose too many verdicts."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

from moirae.live.losing_rules import LOSING_RULE, LosingRulesMonitor
from sql.rules import LosingRuleRow

START = datetime(2026, 1, 1, tzinfo=UTC)


class FakeAlerts:
    """The stored alerts of the built-in rule."""

    def __init__(self) -> None:
        self.descriptions: list[Any] = []
        self.rows: dict[Any, Any] = {}

    def list_open(self, rule: str) -> list[Any]:
        assert rule == LOSING_RULE
        return [row for row in self.rows.values() if row.ends_at is None]

    def put(self, alerts: Any) -> None:
        for description, lifetime in alerts:
            self.descriptions.append(description)
            self.update({description.id: lifetime})

    def update(self, lifetimes: Any) -> None:
        for alert_id, lifetime in lifetimes.items():
            self.rows[alert_id] = SimpleNamespace(id=alert_id, **lifetime.to_json())


def test_alert_fires_while_a_rule_loses_too_many_verdicts() -> None:
    alerts: Any = FakeAlerts()
    losing = [LosingRuleRow("g/r", START, "lost more than 0.01 of its candidate rows")]
    deployments: Any = SimpleNamespace(list_losing=lambda: list(losing))
    resume_recovered = Mock()
    now = START + timedelta(seconds=5)
    monitor = LosingRulesMonitor(alerts, deployments, resume_recovered, lambda: now)
    monitor.run_once()
    monitor.run_once()
    (description,) = alerts.descriptions
    assert description.labels["rule"] == "g/r"
    assert "lost more than 0.01" in description.annotations["description"]
    assert [row.state for row in alerts.rows.values()] == ["firing"]
    losing.clear()
    monitor.run_once()
    assert [row.state for row in alerts.rows.values()] == ["resolved"]
    assert resume_recovered.call_count == 3
