"""The built-in alert `NoInput`: no stream has brought a row for some wall-clock time."""

from collections.abc import Callable
from datetime import datetime, timedelta

import structlog

from archiver.clock import utc_now
from moirae.alerts import built_in
from sql.alerts import AlertGateway, OpenAlertRow

_LOG = structlog.get_logger()

NO_INPUT_RULE = "moirae/NoInput"
_LABELS = {"alertname": "NoInput", "severity": "page"}


class NoInputMonitor:
    """Raises the alert when input stops, and resolves it when a row arrives.

    Its times are wall-clock times. It has no events: neither contexts nor recalls.
    """

    def __init__(
        self,
        alerts: AlertGateway,
        timeout: timedelta,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        """The time without input counts from now, when the process starts."""
        self._alerts = alerts
        self._timeout = timeout
        self._clock = clock
        self._last_row_at = clock()
        self._has_input = False

    def record_rows(self, count: int) -> None:
        """Note that rows were read."""
        if count:
            self._last_row_at = self._clock()
            self._has_input = True

    def run_once(self) -> None:
        """Raise, prolong or resolve the alert."""
        now = self._clock()
        open_alerts = self._alerts.list_open(NO_INPUT_RULE)
        # After a restart an open alert waits for a row. Input may have stopped again since.
        if self._has_input:
            ended = [alert for alert in open_alerts if alert.starts_at < self._last_row_at]
            for alert in ended:
                self._resolve(alert)
                open_alerts.remove(alert)
        if now - self._last_row_at < self._timeout:
            return
        if not open_alerts:
            self._raise_alert(now)
        for alert in open_alerts:
            lifetime = built_in.make_lifetime(alert.starts_at, alert.fired_at or now, now)
            self._alerts.update({alert.id: lifetime})

    def _raise_alert(self, now: datetime) -> None:
        started_at = self._last_row_at
        description = built_in.describe_alert(
            built_in.make_alert_id(started_at.isoformat()),
            NO_INPUT_RULE,
            labels=_LABELS,
            annotations={
                "summary": f"No stream has brought a row since {started_at:%Y-%m-%d %H:%M:%S}Z",
                "description": "Check the sources of the streams, and `moirae streams list`.",
            },
            key={},
        )
        self._alerts.put([(description, built_in.make_lifetime(started_at, now, now))])
        _LOG.warning("no input", action="no_input", since=started_at.isoformat())

    def _resolve(self, alert: OpenAlertRow) -> None:
        end = self._last_row_at
        lifetime = built_in.make_lifetime(
            alert.starts_at, alert.fired_at or end, end, has_ended=True
        )
        self._alerts.update({alert.id: lifetime})
        _LOG.info("input has returned", action="input_returned", since=alert.starts_at.isoformat())
