"""The built-in alert about records that were lost before they were read."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from moirae.live.lost_input import LOST_INPUT_RULE, LostInputMonitor
from sql.topics import LostRecordsRow

START = datetime(2026, 1, 1, tzinfo=UTC)


class FakeAlerts:
    """The stored alerts of the built-in rule."""

    def __init__(self) -> None:
        self.descriptions: dict[Any, Any] = {}
        self.rows: dict[Any, Any] = {}

    def list_open(self, rule: str) -> list[Any]:
        assert rule == LOST_INPUT_RULE
        return [row for row in self.rows.values() if row.ends_at is None]

    def put(self, alerts: Any) -> None:
        for description, lifetime in alerts:
            self.descriptions[description.id] = description
            self.update({description.id: lifetime})

    def update(self, lifetimes: Any) -> None:
        for alert_id, lifetime in lifetimes.items():
            self.rows[alert_id] = SimpleNamespace(id=alert_id, **lifetime.to_json())


class World:
    """A monitor over losses and a clock that the test sets."""

    def __init__(self) -> None:
        self.now = START
        self.losses: list[LostRecordsRow] = []
        self.alerts = FakeAlerts()
        self.restart()

    def restart(self) -> None:
        gateway: Any = SimpleNamespace(list_open=lambda: list(self.losses))
        alerts: Any = self.alerts
        self.monitor = LostInputMonitor(alerts, gateway, lambda: self.now)

    def lose(self, number: int, stream: str, first: int) -> None:
        row = LostRecordsRow(number, stream, "t", "0", first, first + 9, "deleted", self.now, None)
        self.losses.append(row)

    def run(self) -> dict[str, str]:
        """The state of the newest alert of each stream."""
        self.now += timedelta(seconds=2)
        self.monitor.run_once()
        states: dict[str, str] = {}
        for alert_id, row in self.alerts.rows.items():
            states[self.alerts.descriptions[alert_id].labels["stream"]] = row.state
        return states


def test_alert_of_a_stream_fires_until_its_losses_are_acknowledged() -> None:
    world = World()
    assert world.run() == {}
    world.lose(1, "a", 100)
    world.lose(2, "b", 5)
    assert world.run() == {"a": "firing", "b": "firing"}
    world.restart()
    world.losses = [loss for loss in world.losses if loss.stream == "b"]
    assert world.run() == {"a": "resolved", "b": "firing"}
    world.losses = []
    assert world.run() == {"a": "resolved", "b": "resolved"}
    assert len(world.alerts.rows) == 2


def test_further_losses_are_added_to_the_alert_that_fires() -> None:
    world = World()
    world.lose(1, "a", 100)
    world.run()
    world.lose(2, "a", 200)
    assert world.run() == {"a": "firing"}
    (description,) = world.alerts.descriptions.values()
    assert "partition 0 offsets 100 to 109" in description.annotations["description"]
    assert "partition 0 offsets 200 to 209" in description.annotations["description"]
    assert "moirae streams acknowledge a" in description.annotations["description"]
    assert description.key == {"stream": "a"}


def test_loss_after_the_acknowledgement_is_another_alert() -> None:
    world = World()
    world.lose(1, "a", 100)
    world.run()
    world.losses = []
    world.run()
    world.lose(2, "a", 200)
    assert world.run() == {"a": "firing"}
    assert len(world.alerts.rows) == 2
