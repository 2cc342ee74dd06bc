"""What people and agents record about an alert: acknowledgements, notes, resolutions, assignments,
steps that were checked, proposed resolutions.
"""

from typing import Literal
from uuid import UUID

import sql
from moirae.errors import UsageError
from sql.alerts import AlertNoteGateway, NewAlertNote

NoteKind = Literal["ack", "note", "resolution", "assign", "checked", "proposal"]
Outcome = Literal["ruled out", "confirmed", "open"]
"""What a checked step says about the suspicion that it was for."""


def add_note(connection: sql.Connection, alert_id: UUID, note: NewAlertNote) -> None:
    """Record a note of an alert. Its kind is a `NoteKind`.

    Its tag is the remedy in one word; alerts with equal tags count as the same kind. Raises
    `UsageError` if the text is blank.
    """
    if not note.text.strip():
        raise UsageError(f"the text of the {note.kind} must not be empty")
    AlertNoteGateway(connection).insert(alert_id, note)
