"""The built-in alert when no rows arrive."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from moirae.live.no_input import NO_INPUT_RULE, NoInputMonitor

START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


class FakeAlerts:
    """The stored alerts of the built-in rule."""

    def __init__(self) -> None:
        self.rows: dict[Any, Any] = {}

    def list_open(self, rule: str) -> list[Any]:
        assert rule == NO_INPUT_RULE
        return [row for row in self.rows.values() if row.ends_at is None]

    def put(self, alerts: Any) -> None:
        self.update({description.id: lifetime for description, lifetime in alerts})

    def update(self, lifetimes: Any) -> None:
        for alert_id, lifetime in lifetimes.items():
            self.rows[alert_id] = SimpleNamespace(id=alert_id, **lifetime.to_json())


class World:
    """A monitor with a clock that the test sets."""

    def __init__(self) -> None:
        self.now = START
        self.alerts = FakeAlerts()
        self.restart()

    def restart(self) -> None:
        self.monitor = NoInputMonitor(self.alerts, 10 * MINUTE, lambda: self.now)  # type: ignore[arg-type]

    def run(self, after: timedelta, rows: int = 0) -> list[tuple[str, datetime, datetime | None]]:
        self.now += after
        self.monitor.record_rows(rows)
        self.monitor.run_once()
        return [(row.state, row.starts_at, row.ends_at) for row in self.alerts.rows.values()]


def test_alert_fires_after_the_time_without_rows_and_is_resolved_by_a_row() -> None:
    world = World()
    assert world.run(9 * MINUTE, rows=5) == []
    assert world.run(9 * MINUTE) == []
    silent_since = START + 9 * MINUTE
    assert world.run(1 * MINUTE) == [("firing", silent_since, None)]
    assert world.run(5 * MINUTE) == [("firing", silent_since, None)]
    end = START + 25 * MINUTE
    assert world.run(1 * MINUTE, rows=1) == [("resolved", silent_since, end)]
    assert world.run(9 * MINUTE) == [("resolved", silent_since, end)]
    assert [state for state, *_ in world.run(1 * MINUTE)] == ["resolved", "firing"]


def test_open_alert_survives_a_restart_until_a_row_arrives() -> None:
    world = World()
    world.run(10 * MINUTE)
    world.restart()
    assert [state for state, *_ in world.run(1 * MINUTE)] == ["firing"]
    assert [state for state, *_ in world.run(1 * MINUTE, rows=1)] == ["resolved"]


def test_row_between_two_checks_resolves_the_alert_although_input_stopped_again() -> None:
    world = World()
    world.run(MINUTE, rows=1)
    world.run(10 * MINUTE)
    row_at = START + 12 * MINUTE
    world.now = row_at
    world.monitor.record_rows(1)
    assert world.run(10 * MINUTE) == [
        ("resolved", START + MINUTE, row_at),
        ("firing", row_at, None),
    ]
