"""The built-in alert about forecasts that are worse than frequencies."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from moirae.live.worse_forecasts import WORSE_FORECASTS_RULE, WorseForecastsMonitor
from sql.similarity import ForecastRecordRow

START = datetime(2026, 1, 1, tzinfo=UTC)


class FakeAlerts:
    """The stored alerts of the built-in rule."""

    def __init__(self) -> None:
        self.rows: dict[Any, Any] = {}
        self.descriptions: list[Any] = []

    def list_open(self, rule: str) -> list[Any]:
        assert rule == WORSE_FORECASTS_RULE
        return [row for row in self.rows.values() if row.ends_at is None]

    def put(self, alerts: Any) -> None:
        for description, lifetime in alerts:
            self.descriptions.append(description)
            self.update({description.id: lifetime})

    def update(self, lifetimes: Any) -> None:
        for alert_id, lifetime in lifetimes.items():
            self.rows[alert_id] = SimpleNamespace(id=alert_id, **lifetime.to_json())

    @property
    def states(self) -> list[str]:
        return [row.state for row in self.rows.values()]


def make_record(recall: str, worse_since: datetime | None) -> ForecastRecordRow:
    reason = None if worse_since is None else "Plain frequencies are shown: worse."
    return ForecastRecordRow(
        "g/r", "1", recall, 50, 0.0, 3.0, 2.0, 1.0, 0.5, 1.5, reason, worse_since, START
    )


def test_one_alert_for_each_recall_fires_until_its_forecasts_are_not_worse() -> None:
    alerts: Any = FakeAlerts()
    records: list[ForecastRecordRow] = []
    forecasts: Any = SimpleNamespace(list_records=lambda: records)
    now = iter(START + timedelta(minutes=n) for n in range(100))
    monitor = WorseForecastsMonitor(alerts, forecasts, lambda: next(now))

    def run(*present: ForecastRecordRow) -> list[str]:
        records[:] = present
        monitor.run_once()
        return list(alerts.states)

    assert run(make_record("similar", None)) == []
    worse = make_record("similar", START)
    assert run(worse) == ["firing"]
    assert run(worse) == ["firing"]
    assert run(worse, make_record("other", START)) == ["firing", "firing"]
    assert run(make_record("similar", None), make_record("other", START)) == ["resolved", "firing"]
    # The rule is gone.
    assert run() == ["resolved", "resolved"]
    # It happens again.
    assert run(make_record("similar", START + timedelta(hours=1))) == ["resolved"] * 2 + ["firing"]
    assert alerts.descriptions[0].annotations["summary"] == (
        "Forecasts of g/r similar are worse than frequencies"
    )
    assert alerts.descriptions[0].key == {"rule": "g/r", "recall": "similar"}
