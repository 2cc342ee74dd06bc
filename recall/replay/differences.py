"""Compare the stored rows of an SQL answer with recomputed ones. No I/O."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

# Fractions that differ by less, relative to the larger one, are equal.
_RELATIVE_TOLERANCE = 1e-9
# Larger whole numbers may be fractions that JSON stored without a decimal point.
_MAX_EXACT_INTEGER = 1 << 53

Rows = Sequence[Mapping[str, Any]]


def describe_difference(before: Rows, now: Rows, ordered: bool) -> str | None:
    """The first difference between two answers; None if they are equal.

    Rows of a query without ORDER BY (`ordered` false) are sorted first, in an order that does not
    depend on the last digits of fractions.
    """
    if len(before) != len(now):
        return f"the stored answer has {len(before)} rows, the replayed one {len(now)}"
    if not ordered:
        before = sorted(before, key=_sort_key)
        now = sorted(now, key=_sort_key)
    for number, (old, new) in enumerate(zip(before, now, strict=True), start=1):
        for name in old:
            if not are_equal(old[name], new.get(name)):
                return f"row {number}: {name} was {old[name]}, now it is {new.get(name)}"
    return None


def _sort_key(row: Mapping[str, Any]) -> tuple[bytes, list[float]]:
    """Exact values first, then fractions; columns by name, because storage reorders them."""
    exact: dict[str, Any] = {}
    fractions: list[float] = []
    for name, value in sorted(row.items()):
        if _is_fraction(value):
            fractions.append(value)
        else:
            exact[name] = value
    return orjson.dumps(exact, option=orjson.OPT_SORT_KEYS), fractions


def _is_fraction(value: Any) -> bool:
    return isinstance(value, float) or (isinstance(value, int) and abs(value) > _MAX_EXACT_INTEGER)


def are_equal(before: Any, now: Any) -> bool:
    """Deep equality; numbers to nine digits. A boolean does not equal a number by tolerance."""
    if _is_number(before) and isinstance(now, float | int):
        return before == now or math.isclose(before, now, rel_tol=_RELATIVE_TOLERANCE)
    if isinstance(before, list) and isinstance(now, list):
        return len(before) == len(now) and all(map(are_equal, before, now))
    if isinstance(before, dict) and isinstance(now, dict):
        return before.keys() == now.keys() and all(
            are_equal(value, now[name]) for name, value in before.items()
        )
    return bool(before == now)


def _is_number(value: Any) -> bool:
    return isinstance(value, float | int) and not isinstance(value, bool)
