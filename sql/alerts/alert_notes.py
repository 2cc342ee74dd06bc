"""Notes of operators about alerts."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sql.gateway import Gateway
from sql.values import replace_nul


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAlertNote:
    """A note to be stored; see `AlertNoteRow`."""

    kind: str
    author: str
    text: str
    tag: str | None = None
    assignee: str | None = None
    result: str | None = None
    outcome: str | None = None
    effect: str | None = None
    superseded_by: str | None = None
    link: str | None = None


@dataclass(frozen=True, slots=True)
class AlertNoteRow:
    """A note. `kind`: ack, note, resolution, assign, checked or proposal.

    `tag`: the remedy in one word, if any. `assignee`: whom an assignment names, else None. `result`,
    `outcome`: of a checked step, whose text is what was done. `effect`: of a resolution that is no
    fix; `superseded_by`: the tag of what is done instead. `link`: of a post-mortem or ticket.
    `recorded_tag`: the tag as it was recorded, if it has another name since.
    """

    alert_id: UUID
    kind: str
    author: str
    text: str
    tag: str | None
    assignee: str | None
    result: str | None
    outcome: str | None
    effect: str | None
    superseded_by: str | None
    link: str | None
    recorded_tag: str | None
    at: datetime


class AlertNoteGateway(Gateway):
    """The notes of all alerts."""

    queries = "alert_notes"

    def insert(self, alert_id: UUID, note: NewAlertNote) -> None:
        """Store a note with the present time."""
        self._execute(
            "insert",
            alert_id=alert_id,
            kind=note.kind,
            author=note.author,
            text=replace_nul(note.text),
            tag=note.tag,
            assignee=note.assignee,
            result=None if note.result is None else replace_nul(note.result),
            outcome=note.outcome,
            effect=note.effect,
            superseded_by=note.superseded_by,
            link=note.link,
        )

    def list_by_alerts(self, alert_ids: Iterable[UUID]) -> list[AlertNoteRow]:
        """The notes of some alerts, oldest first."""
        return self._records(AlertNoteRow, "list_by_alerts", alert_ids=list(alert_ids))
