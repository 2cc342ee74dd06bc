"""The changes from one answer to the next, and the answer that a sequence of changes leads to."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Operation = Literal["insert", "update", "delete", "boundary"]
Row = Mapping[str, Any]
# The rows of an answer by key.
KeyedRows = Mapping[str, Row]


@dataclass(frozen=True, slots=True)
class RowChange:
    """A row revision without its number.

    `row`: the new row, None for delete. `old_row`: the row before, None for insert. Both are None
    for a boundary, which has an empty key.
    """

    op: Operation
    row_key: str
    row: Row | None = None
    old_row: Row | None = None


BOUNDARY = RowChange("boundary", "")


def diff(before: KeyedRows, after: KeyedRows) -> list[RowChange]:
    """The changes that turn some rows into others: deletes first, then the others in order."""
    changes: list[RowChange] = []
    for key, row in before.items():
        if key not in after:
            changes.append(RowChange("delete", key, None, row))
    for key, row in after.items():
        old_row = before.get(key)
        if old_row is None:
            changes.append(RowChange("insert", key, row))
        elif old_row != row:
            changes.append(RowChange("update", key, row, old_row))
    return changes


def apply_change(rows: dict[str, Row], change: RowChange) -> None:
    """Apply one change in place. Raises `ValueError` if it does not fit."""
    if change.op == "boundary":
        return
    is_present = change.row_key in rows
    if is_present == (change.op == "insert"):
        state = "exists" if is_present else "does not exist"
        raise ValueError(f"{change.op} of the row {change.row_key}, which {state}")
    if change.row is None:
        del rows[change.row_key]
    else:
        rows[change.row_key] = change.row


def replay(changes: Iterable[RowChange], rows: KeyedRows | None = None) -> dict[str, Row]:
    """The rows after some changes; `rows`: those before, none by default."""
    replayed = dict(rows or {})
    for change in changes:
        apply_change(replayed, change)
    return replayed
