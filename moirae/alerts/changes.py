"""The log of changes of alerts, recalls and answers, in the order of their commits.

Triggers write it in the transaction that changes a row, whichever statement does it. Live clients
and notifications follow it; each reader keeps its own position.
"""

from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

import sql
from sql.reports import ChangedAlertRow, ChangeGateway, ChangePosition, ChangeRow

# Before all stored changes.
_UNKNOWN_POSITION = ChangePosition(-1, -1)
# Their rows are read as they are now: a reader needs only the last change of each.
_KINDS_OF_PRESENT_ROWS = ("alert", "recall", "stage")


def format_position(position: ChangePosition) -> str:
    """A position as text."""
    return f"{position.xid}-{position.id}"


def parse_position(text: str) -> ChangePosition:
    """The position of a text; of another text, one whose changes are not stored."""
    xid, _, number = text.partition("-")
    digits = xid + number
    is_valid = xid and number and digits.isascii() and digits.isdigit() and len(digits) < 36
    if not is_valid or max(int(xid), int(number)) >= 1 << 63:
        return _UNKNOWN_POSITION
    return ChangePosition(int(xid), int(number))


class ChangeLog:
    """The log of changes of a workspace."""

    def __init__(self, connection: sql.Connection) -> None:
        self._gateway = ChangeGateway(connection)

    def newest(self) -> ChangePosition:
        """The position of the newest change that `list_after` returns."""
        return self._gateway.position()

    def has_all_after(self, position: ChangePosition) -> bool:
        """Whether all changes after a position are stored."""
        return self._gateway.oldest() <= position <= self._gateway.position()

    def list_after(
        self, position: ChangePosition, *, limit: int, upto: ChangePosition | None = None
    ) -> list[ChangeRow]:
        """Changes after a position, in order. `upto`: the last position; None: the newest."""
        changes = self._gateway.list_after(position, limit=limit)
        if upto is not None:
            changes = [change for change in changes if change.position <= upto]
        return changes

    def read_alerts(self, changes: Sequence[ChangeRow]) -> dict[UUID, ChangedAlertRow]:
        """The alerts of some changes as they are now, by ID; deleted ones are missing."""
        ids = {change.key for change in changes if change.kind == "alert"}
        return {row.id: row for row in self._gateway.list_alerts(ids)} if ids else {}


def select_last(changes: Sequence[ChangeRow]) -> Iterator[tuple[ChangeRow, bool]]:
    """The changes, and whether each is to be reported.

    Of the changes of a row that is read as it is now, only the last is.
    """
    last_of_row = {_row_key(change): change.position for change in changes}
    for change in changes:
        is_last = last_of_row[_row_key(change)] == change.position
        yield change, is_last or change.kind not in _KINDS_OF_PRESENT_ROWS


def _row_key(change: ChangeRow) -> tuple[Any, ...]:
    return change.kind, change.key, change.version, change.name
