"""What a new version of a relation changes, and whether it is held back. No I/O."""

from collections.abc import Mapping
from typing import Any, NamedTuple

_MIN_MISSING_ROWS = 20

Row = Mapping[str, Any]


class RowChanges(NamedTuple):
    """The rows that a version adds and changes, by key; and the keys of those that it lacks."""

    added: dict[bytes, Row]
    changed: dict[bytes, Row]
    removed: list[bytes]


def compare_rows(rows_in_use: Mapping[bytes, Row | None], rows: Mapping[bytes, Row]) -> RowChanges:
    """The changes from the rows in use to new ones; None: a row that was removed before."""
    changes = RowChanges({}, {}, [])
    for key, row in rows.items():
        row_in_use = rows_in_use.get(key)
        if row_in_use is None:
            changes.added[key] = row
        elif row_in_use != row:
            changes.changed[key] = row
    for key, row_in_use in rows_in_use.items():
        if row_in_use is not None and key not in rows:
            changes.removed.append(key)
    return changes


def is_shrunk(row_count_in_use: int, row_count: int) -> bool:
    """Whether a version has so few rows that it may be damaged."""
    is_fewer_than_half = 2 * row_count < row_count_in_use
    return is_fewer_than_half and row_count_in_use - row_count >= _MIN_MISSING_ROWS
