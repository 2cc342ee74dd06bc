"""What people and agents record about an alert: acknowledgements, notes, resolutions, assignments,
steps that were checked, proposed resolutions.
"""

import re
from typing import Literal
from uuid import UUID

import sql
from moirae.errors import UsageError
from sql.alerts import AlertNoteGateway, NewAlertNote

NoteKind = Literal["ack", "note", "resolution", "assign", "checked", "proposal"]
Outcome = Literal["ruled out", "confirmed", "open"]
"""What a checked step says about the suspicion that it was for."""
Effect = Literal["no action needed", "did not help", "superseded"]
"""What a resolution that is no fix says of the remedy that its tag names."""
_LINK = re.compile(r"https?://[^\s\x00-\x1f]+", re.ASCII | re.IGNORECASE)


def add_note(connection: sql.Connection, alert_id: UUID, note: NewAlertNote) -> None:
    """Record a note of an alert. Its kind is a `NoteKind`.

    Its tag is the remedy in one word; alerts with equal tags count as the same kind. Raises
    `UsageError` if the text is blank, if a superseded remedy does not say by what, and for a link
    that is no web address.
    """
    if not note.text.strip():
        raise UsageError(f"the text of the {note.kind} must not be empty")
    if (note.effect == "superseded") != (note.superseded_by is not None):
        raise UsageError("superseded and the tag of what is done instead belong together")
    if note.superseded_by is not None and note.superseded_by == note.tag:
        raise UsageError(f"the remedy {note.tag} cannot be superseded by itself")
    if note.link is not None and not _LINK.fullmatch(note.link):
        raise UsageError(f"the link {note.link[:80]!r} is not an address: write https://…")
    AlertNoteGateway(connection).insert(alert_id, note)
