"""The built-in alert `ReceiverFailing`: a receiver has not taken messages for some time, or its
acknowledgements cannot be read.

It is sent to all other receivers, whatever the routes say.
"""

from collections.abc import Collection
from datetime import datetime, timedelta

import sql
from archiver.clock import utc_now
from moirae.alerts import built_in
from moirae.notify.routing.policy import FAILING_NAME, FAILING_SOURCE
from sql.alerts import AlertGateway
from sql.notifications import NotificationGateway, ReceiverStateRow

FAILING_RULE = "moirae/ReceiverFailing"
_FAILING_TIME = timedelta(minutes=1)  # by the clock, after which the alert fires


class FailingReceivers:
    """Raises the alert for each receiver that fails, and resolves it when messages arrive."""

    def __init__(self, connection: sql.Connection) -> None:
        self._alerts = AlertGateway(connection)
        self._notifications = NotificationGateway(connection)

    def run_once(self, declared: Collection[str]) -> None:
        """Raise and resolve alerts. `declared`: names of receivers."""
        now = utc_now()
        open_alerts = {
            alert.key["receiver"]: alert for alert in self._alerts.list_open(FAILING_RULE)
        }
        for state in self._notifications.list_states():
            since = state.failing_since or state.unread_since
            is_failing = since is not None and state.receiver in declared
            alert = open_alerts.pop(state.receiver, None)
            if alert is not None and not is_failing:
                lifetime = built_in.make_lifetime(alert.starts_at, now, now, has_ended=True)
                self._alerts.update({alert.id: lifetime})
            elif alert is None and is_failing and since is not None and now - since > _FAILING_TIME:
                self._raise_alert(state, since, now)
        for alert in open_alerts.values():  # of receivers that are not declared any more
            lifetime = built_in.make_lifetime(alert.starts_at, now, now, has_ended=True)
            self._alerts.update({alert.id: lifetime})

    def _raise_alert(self, state: ReceiverStateRow, since: datetime, now: datetime) -> None:
        name = state.receiver
        what = "Receiver {} has not taken messages"
        if state.failing_since is None:
            what = "Acknowledgements of receiver {} cannot be read"
        error = state.error if state.failing_since is not None else state.unread_error
        description = built_in.describe_alert(
            built_in.make_alert_id(f"receiver/{name}/{since.isoformat()}"),
            FAILING_RULE,
            labels={"alertname": FAILING_NAME, "severity": "page", "source": FAILING_SOURCE},
            annotations={
                "summary": f"{what.format(name)} since {since:%Y-%m-%d %H:%M:%S}Z",
                "description": f"{error or ''} Test it by `moirae receivers test {name}`.",
            },
            key={"receiver": name},
        )
        self._alerts.put([(description, built_in.make_lifetime(since, now, now))])
