"""Notes of operators about alerts."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sql.gateway import Gateway
from sql.values import replace_nul


@dataclass(frozen=True, slots=True)
class AlertNoteRow:
    """A note. `kind`: ack, note, resolution or assign.

    `tag`: the remedy in one word, if any. `assignee`: whom an assignment names, else None.
    """

    alert_id: UUID
    kind: str
    author: str
    text: str
    tag: str | None
    assignee: str | None
    at: datetime


class AlertNoteGateway(Gateway):
    """The notes of all alerts."""

    queries = "alert_notes"

    def insert(
        self,
        alert_id: UUID,
        *,
        kind: str,
        author: str,
        text: str,
        tag: str | None = None,
        assignee: str | None = None,
    ) -> None:
        """Store a note with the present time."""
        self._execute(
            "insert",
            alert_id=alert_id,
            kind=kind,
            author=author,
            text=replace_nul(text),
            tag=tag,
            assignee=assignee,
        )

    def list_by_alerts(self, alert_ids: Iterable[UUID]) -> list[AlertNoteRow]:
        """The notes of some alerts, oldest first."""
        return self._records(AlertNoteRow, "list_by_alerts", alert_ids=list(alert_ids))
