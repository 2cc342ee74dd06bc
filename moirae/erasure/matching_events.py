"""Which events belong to erased rows: those of the time of a row whose columns are the row's. No I/O.

An event of a query without aggregates has the time of its row, and columns of it.
"""

from collections.abc import Iterable, Mapping
from typing import Any


def is_event_of(
    rows: Iterable[Mapping[str, str]], key: Mapping[str, Any], attributes: Mapping[str, Any]
) -> bool:
    """Whether an event is one of some rows of its time. `rows`: values as texts, by column.

    All columns that both have are equal, and there is one at least; all columns of its key that are
    not NULL are columns of the row.
    """
    named = {name: str(value) for name, value in key.items() if value is not None}
    named_attributes = {
        name: str(value)
        for name, value in attributes.items()
        if isinstance(value, str | int) and not isinstance(value, bool)
    }
    return any(_agrees(row, named, named_attributes) for row in rows)


def _agrees(
    row: Mapping[str, str], key: Mapping[str, str], named_attributes: Mapping[str, str]
) -> bool:
    if not key.keys() <= row.keys():
        return False
    event = {**{name: value for name, value in named_attributes.items() if name in row}, **key}
    return bool(event) and all(row[name] == value for name, value in event.items())
