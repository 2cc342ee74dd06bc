"""What operators record about an alert: acknowledgements, notes, resolutions, assignments."""

from typing import Literal
from uuid import UUID

import sql
from moirae.errors import UsageError
from sql.alerts import AlertNoteGateway

NoteKind = Literal["ack", "note", "resolution", "assign"]


def add_note(
    connection: sql.Connection,
    alert_id: UUID,
    *,
    kind: NoteKind,
    text: str,
    author: str,
    tag: str | None = None,
    assignee: str | None = None,
) -> None:
    """Record a note of an alert.

    `tag`: the remedy in one word; alerts with equal tags count as the same kind. `assignee`: of an
    assignment, who is responsible for the alert from now on.
    Raises `UsageError` if the text is blank.
    """
    if not text.strip():
        raise UsageError(f"the text of the {kind} must not be empty")
    AlertNoteGateway(connection).insert(
        alert_id, kind=kind, author=author, text=text, tag=tag, assignee=assignee
    )
