"""What `moirae demo` looks up to tell its story."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sql.gateway import Gateway


@dataclass(frozen=True, slots=True)
class AlertEventRow:
    """The first event of an alert that fired. `host`: of its key."""

    eid: str
    rule: str
    host: str
    ts: datetime


class DemoGateway(Gateway):
    """Events and alerts of the simulated testbed, and the progress of its history."""

    queries = "demo"

    def list_events_of_alerts(self) -> list[AlertEventRow]:
        """The first events of the alerts that fired."""
        return self._records(AlertEventRow, "list_events_of_alerts")

    def find_first_alert(
        self, rule: str, host: str, *, starts: datetime, until: datetime
    ) -> UUID | None:
        """The first alert of a rule on a host in a time range; None if there is none."""
        alert_id: UUID | None = self._value(
            "find_first_alert", rule=rule, host=host, starts=starts, until=until
        )
        return alert_id

    def history_progress(self) -> tuple[int, bool]:
        """Number of archived files; whether rules are evaluated and recalls are answered."""
        row = self._execute("history_progress").fetchone()
        assert row is not None
        return row[0], row[1]
