"""The built-in alert `BackupOverdue`: the last scheduled backup is too old."""

from collections.abc import Callable

from moirae.alerts import built_in
from moirae.runtime import BackupState
from sql.alerts import AlertGateway

BACKUP_OVERDUE_RULE = "moirae/BackupOverdue"
_LABELS = {"alertname": "BackupOverdue", "severity": "warning"}


class OverdueBackupMonitor:
    """Raises the alert while a backup is overdue, and resolves it after the next one."""

    def __init__(self, alerts: AlertGateway, read_state: Callable[[], BackupState]) -> None:
        self._alerts = alerts
        self._read_state = read_state

    def run_once(self) -> None:
        """Raise, prolong or resolve the alert."""
        state = self._read_state()
        open_alerts = self._alerts.list_open(BACKUP_OVERDUE_RULE)
        for alert in open_alerts:
            lifetime = built_in.make_lifetime(
                alert.starts_at, alert.fired_at or state.now, state.now, not state.is_overdue
            )
            self._alerts.update({alert.id: lifetime})
        if state.is_overdue and not open_alerts:
            self._raise_alert(state)

    def _raise_alert(self, state: BackupState) -> None:
        assert state.since is not None
        description = built_in.describe_alert(
            built_in.make_alert_id(f"backup/{state.since.isoformat()}"),
            BACKUP_OVERDUE_RULE,
            labels=_LABELS,
            annotations={
                "summary": f"Backup overdue: {state.describe()}",
                "description": "Check the log of the backup process, and `moirae status`.",
            },
            key={},
        )
        self._alerts.put([(description, built_in.make_lifetime(state.since, state.now, state.now))])
