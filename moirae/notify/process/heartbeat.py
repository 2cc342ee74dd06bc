"""The heartbeat: a message at intervals as long as alerts would reach a receiver."""

from datetime import datetime
from typing import Any

import sql
from archiver.clock import utc_now
from archiver.periodic import Timer
from moirae.config import Heartbeat
from moirae.notify.delivery import Delivery
from moirae.notify.messages.content import format_time
from sql.processes import ProcessGateway

_ALERT = "Heartbeat"


class HeartbeatMessages:
    """Makes the messages. They are neither stored nor tried again: an old one would say nothing."""

    def __init__(self, connection: sql.Connection) -> None:
        self._processes = ProcessGateway(connection)
        self._declared: Heartbeat | None = None
        self._timer = Timer(60.0)

    def make_due(self, declared: Heartbeat | None, public_url: str) -> list[Delivery]:
        """The message, if it is due and rows are evaluated: the live process runs."""
        if declared != self._declared:
            self._declared = declared
            if declared is not None:
                self._timer = Timer(declared.every.total_seconds())
        if declared is None or not self._timer.is_due():
            return []
        self._timer.restart()
        if not self._is_live_running():
            return []
        now = utc_now()
        return [
            Delivery(
                id=None,
                receiver=declared.receiver,
                group_key="moirae/heartbeat",
                content=_make_content(declared.receiver, public_url, now),
                created_at=now,
                cause="heartbeat",
            )
        ]

    def _is_live_running(self) -> bool:
        return any(
            process.role == "live" and process.alive and process.state == "running"
            for process in self._processes.list_all()
        )


def _make_content(receiver: str, public_url: str, now: datetime) -> dict[str, Any]:
    labels = {"alertname": _ALERT, "severity": "info"}
    alert = {
        "status": "firing",
        "labels": labels,
        "annotations": {"summary": "Alerts are evaluated and sent."},
        "startsAt": format_time(now),
        "endsAt": format_time(None),
        "generatorURL": public_url,
        "fingerprint": "",
        "moirae": {"link": public_url},
    }
    return {
        "receiver": receiver,
        "status": "firing",
        "cause": "heartbeat",
        "groupKey": '{}:{alertname="Heartbeat"}',
        "groupLabels": {"alertname": _ALERT},
        "externalURL": public_url,
        "alerts": [alert],
    }
