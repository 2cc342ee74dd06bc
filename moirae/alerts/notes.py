"""What operators record about an alert: acknowledgements, notes and resolutions."""

from collections.abc import Iterable
from typing import Any, Literal
from uuid import UUID

from psycopg import Connection
from psycopg.rows import dict_row

import sql
from moirae.errors import UsageError

NoteKind = Literal["ack", "note", "resolution"]

_QUERIES = sql.load("alerts")


def add_note(
    connection: Connection[Any],
    alert_id: UUID,
    *,
    kind: NoteKind,
    text: str,
    author: str,
    tag: str | None = None,
) -> None:
    """Record a note of an alert.

    `tag`: the remedy in one word; alerts with equal tags count as the same kind.
    Raises `UsageError` if the text is blank.
    """
    if not text.strip():
        raise UsageError(f"the text of the {kind} must not be empty")
    values = {"alert": alert_id, "kind": kind, "author": author, "text": text, "tag": tag}
    connection.execute(_QUERIES["add_note"], values)


def list_notes(connection: Connection[Any], alert_ids: Iterable[UUID]) -> list[dict[str, Any]]:
    """The notes of some alerts, oldest first: alert_id, kind, author, text, tag, at."""
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(_QUERIES["notes"], {"ids": list(alert_ids)}).fetchall()
