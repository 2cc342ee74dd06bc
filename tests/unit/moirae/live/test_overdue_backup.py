"""The built-in alert about backups that are too old."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from moirae.config import BackupSettings
from moirae.live.overdue_backup import BACKUP_OVERDUE_RULE, OverdueBackupMonitor
from moirae.runtime import BackupState
from sql.workspace import BackupRow

START = datetime(2026, 1, 1, tzinfo=UTC)


class FakeAlerts:
    """The stored alerts of the built-in rule."""

    def __init__(self) -> None:
        self.rows: dict[Any, Any] = {}
        self.summaries: list[str] = []

    def list_open(self, rule: str) -> list[Any]:
        assert rule == BACKUP_OVERDUE_RULE
        return [row for row in self.rows.values() if row.ends_at is None]

    def put(self, alerts: Any) -> None:
        for description, lifetime in alerts:
            self.summaries.append(description.annotations["summary"])
            self.update({description.id: lifetime})

    def update(self, lifetimes: Any) -> None:
        for alert_id, lifetime in lifetimes.items():
            self.rows[alert_id] = SimpleNamespace(id=alert_id, **lifetime.to_json())


def test_alert_fires_until_the_next_backup_and_again() -> None:
    alerts = FakeAlerts()
    gateway: Any = alerts
    schedule = BackupSettings(to="/backups", every="1h")

    def run(taken: float, now: float) -> list[str]:
        at = START + timedelta(hours=taken)
        last = BackupRow(1, "b", "/backups", at, at, at, 1, 1, 1, None)
        state = BackupState(schedule, last, None, at, START + timedelta(hours=now))
        OverdueBackupMonitor(gateway, lambda: state).run_once()
        return [row.state for row in alerts.rows.values()]

    assert run(0, 2) == []
    assert run(0, 2.1) == ["firing"]
    assert run(0, 2.2) == ["firing"]
    assert run(2.3, 2.4) == ["resolved"]
    assert run(2.3, 4.5) == ["resolved", "firing"]
    assert alerts.summaries[0] == (
        "Backup overdue: the last backup, b, is of 2026-01-01 00:00Z; scheduled every 1h"
    )
