"""Compares expected rows and alerts with those that came. No I/O."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

DEFAULT_TOLERANCE = 1e-9
_Expected = TypeVar("_Expected")
_Actual = TypeVar("_Actual")


class RowDifference(NamedTuple):
    """Positions of what was expected and did not come, and of what came and was not expected."""

    missing: Sequence[int]
    unexpected: Sequence[int]

    def __bool__(self) -> bool:
        return bool(self.missing or self.unexpected)


def find_difference(
    expected: Sequence[_Expected],
    actual: Sequence[_Actual],
    matches: Callable[[_Expected, _Actual], bool],
    *,
    allows_others: bool,
) -> RowDifference:
    """Match each expected item with an item of its own, for as many as possible."""
    candidates = [
        [number for number, item in enumerate(actual) if matches(expected_item, item)]
        for expected_item in expected
    ]
    owner: dict[int, int] = {}  # of actual items: the expected item

    def assign(position: int, seen: set[int]) -> bool:
        for number in candidates[position]:
            if number in seen:
                continue
            seen.add(number)
            if number not in owner or assign(owner[number], seen):
                owner[number] = position
                return True
        return False

    missing = [position for position in range(len(expected)) if not assign(position, set())]
    unexpected: list[int] = []
    if not allows_others:
        unexpected = [number for number in range(len(actual)) if number not in owner]
    return RowDifference(missing, unexpected)


def row_matches(
    expected: Mapping[str, Any], actual: Mapping[str, Any], tolerance: float | None
) -> bool:
    """Whether a row has the values that are expected of some of its columns."""
    return all(
        name in actual and value_matches(value, actual[name], tolerance)
        for name, value in expected.items()
    )


def value_matches(expected: Any, actual: Any, tolerance: float | None = None) -> bool:
    """Whether two JSON values are equal; numbers within a tolerance, relative to the larger."""
    if _is_number(expected) and _is_number(actual):
        limit = DEFAULT_TOLERANCE if tolerance is None else tolerance
        return math.isclose(expected, actual, rel_tol=limit, abs_tol=1e-12)
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        return expected.keys() == actual.keys() and row_matches(expected, actual, tolerance)
    if isinstance(expected, list | tuple) and isinstance(actual, list | tuple):
        return len(expected) == len(actual) and all(
            value_matches(*pair, tolerance) for pair in zip(expected, actual, strict=True)
        )
    return type(expected) is type(actual) and bool(expected == actual)


def format_row(row: Mapping[str, Any]) -> str:
    """A row in a line, as a difference shows it."""
    return "{" + ", ".join(f"{name}: {value}" for name, value in row.items()) + "}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
