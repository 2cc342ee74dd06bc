"""Expected rows and those that came."""

from typing import Any

import pytest

from moirae.rule_tests.comparison import find_difference, row_matches, value_matches


def test_each_expected_row_needs_a_row_of_its_own() -> None:
    expected = [{"a": 1}, {"a": 1, "b": 2}]
    actual = [{"a": 1, "b": 2}, {"a": 1, "b": 3}]

    def matches(expected_row: dict[str, Any], row: dict[str, Any]) -> bool:
        return row_matches(expected_row, row, None)

    assert not find_difference(expected, actual, matches, allows_others=False)
    difference = find_difference(expected, actual[:1], matches, allows_others=False)
    assert (difference.missing, difference.unexpected) == ([1], [])
    difference = find_difference(expected[:1], actual, matches, allows_others=False)
    assert (difference.missing, difference.unexpected) == ([], [1])
    assert not find_difference(expected[:1], actual, matches, allows_others=True)


@pytest.mark.parametrize(
    ("expected", "actual", "tolerance", "equal"),
    [
        (1, 1.0, None, True),
        (1, 1.001, None, False),
        (1, 1.001, 0.01, True),
        (True, 1, None, False),
        ("1", 1, None, False),
        (None, None, None, True),
        ([1, {"a": 2}], [1.0, {"a": 2.0}], None, True),
        ({"a": 1}, {"a": 1, "b": 2}, None, False),
    ],
)
def test_values_are_equal_within_the_tolerance_of_numbers(
    expected: Any, actual: Any, tolerance: float | None, equal: bool
) -> None:
    assert value_matches(expected, actual, tolerance) == equal
