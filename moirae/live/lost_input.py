"""The built-in alert `LostInput`: records of a stream were lost before they were read."""

from collections.abc import Callable, Sequence
from datetime import datetime
from uuid import UUID

from archiver.clock import utc_now
from archiver.ingest.ledger import describe_losses
from moirae.alerts import built_in
from sql.alerts import AlertGateway
from sql.topics import LostRecordsGateway, LostRecordsRow

LOST_INPUT_RULE = "moirae/LostInput"


class LostInputMonitor:
    """Raises an alert for each stream with losses, which fires until they are acknowledged."""

    def __init__(
        self,
        alerts: AlertGateway,
        lost_records: LostRecordsGateway,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._alerts = alerts
        self._lost_records = lost_records
        self._clock = clock
        # Numbers of losses in the alerts that this process has stored, by ID.
        self._loss_counts: dict[UUID, int] = {}

    def run_once(self) -> None:
        """Raise, change, prolong or resolve alerts."""
        now = self._clock()
        losses_by_stream: dict[str, list[LostRecordsRow]] = {}
        for loss in self._lost_records.list_open():
            losses_by_stream.setdefault(loss.stream, []).append(loss)
        losses_by_alert: dict[UUID, list[LostRecordsRow]] = {}
        for stream, losses in losses_by_stream.items():
            losses_by_alert[built_in.make_alert_id(f"lost/{stream}/{losses[0].id}")] = losses
        open_alerts = self._alerts.list_open(LOST_INPUT_RULE)
        for alert_id, losses in losses_by_alert.items():
            if self._loss_counts.get(alert_id) != len(losses):
                self._put(alert_id, losses, now)
                self._loss_counts[alert_id] = len(losses)
        self._alerts.update(built_in.continue_alerts(open_alerts, losses_by_alert, now))

    def _put(self, alert_id: UUID, losses: Sequence[LostRecordsRow], now: datetime) -> None:
        stream = losses[0].stream
        description = built_in.describe_alert(
            alert_id,
            LOST_INPUT_RULE,
            labels={"alertname": "LostInput", "severity": "page", "stream": stream},
            annotations={
                "summary": f"Stream {stream}: records were lost before they were read",
                "description": "; ".join(describe_losses(losses))
                + f". Acknowledge it by `moirae streams acknowledge {stream}`.",
            },
            key={"stream": stream},
        )
        started_at = losses[0].noticed_at
        self._alerts.put([(description, built_in.make_lifetime(started_at, now, now))])
