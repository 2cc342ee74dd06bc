"""The built-in alert `ForecastsWorse`: learned probabilities are worse than plain frequencies."""

from collections.abc import Callable
from datetime import datetime

from archiver.clock import utc_now
from moirae.alerts import built_in
from sql.alerts import AlertGateway
from sql.similarity import ForecastGateway, ForecastRecordRow

WORSE_FORECASTS_RULE = "moirae/ForecastsWorse"


def _now() -> datetime:
    return utc_now()


class WorseForecastsMonitor:
    """Raises one alert for each recall, and resolves it when its forecasts are not worse any more."""

    def __init__(
        self,
        alerts: AlertGateway,
        forecasts: ForecastGateway,
        now: Callable[[], datetime] = _now,
    ) -> None:
        self._alerts = alerts
        self._forecasts = forecasts
        self._now = now

    def run_once(self) -> None:
        """Raise, prolong and resolve alerts."""
        now = self._now()
        worse = {
            built_in.make_alert_id(_name_alert(record)): record
            for record in self._forecasts.list_records()
            if record.worse_since is not None
        }
        open_alerts = self._alerts.list_open(WORSE_FORECASTS_RULE)
        self._alerts.update(built_in.continue_alerts(open_alerts, worse, now))
        for alert in open_alerts:
            worse.pop(alert.id, None)
        for alert_id, record in worse.items():
            assert record.worse_since is not None
            description = built_in.describe_alert(
                alert_id,
                WORSE_FORECASTS_RULE,
                labels={"alertname": "ForecastsWorse", "severity": "warning"},
                annotations={
                    "summary": f"Forecasts of {record.rule} {record.recall} are worse than "
                    "frequencies",
                    "description": f"{record.reason} See `moirae similarity forecasts`.",
                },
                key={"rule": record.rule, "recall": record.recall},
            )
            lifetime = built_in.make_lifetime(record.worse_since, now, now)
            self._alerts.put([(description, lifetime)])


def _name_alert(record: ForecastRecordRow) -> str:
    assert record.worse_since is not None
    since = record.worse_since.isoformat()
    return f"forecasts/{record.rule}/{record.version}/{record.recall}/{since}"
