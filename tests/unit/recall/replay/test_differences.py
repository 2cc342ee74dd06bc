"""Comparison of stored and recomputed rows."""

from typing import Any

import pytest

from recall.replay.differences import are_equal, describe_difference


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (1.0, 1.0 + 1e-12, True),
        (1.0, 1.0 + 1e-6, False),
        (True, 1 + 1e-12, False),
        ([1.0, None], [1.0, None], True),
        ([1.0], [1.0, 2.0], False),
        ({"a": 1.0}, {"a": 1.0 + 1e-12}, True),
        ({"a": 1}, {"b": 1}, False),
        ("a", "a", True),
    ],
)
def test_values_are_equal_to_nine_digits(before: Any, now: Any, expected: bool) -> None:
    assert are_equal(before, now) is expected


def test_unordered_rows_are_compared_in_one_order() -> None:
    before = [{"host": "a", "v": 1.0}, {"host": "b", "v": 2.0}]
    now = [{"host": "b", "v": 2.0 + 1e-12}, {"host": "a", "v": 1.0}]
    assert describe_difference(before, now, ordered=False) is None
    assert describe_difference(before, now, ordered=True) == "row 1: host was a, now it is b"


def test_number_of_rows_is_reported() -> None:
    message = describe_difference([{"n": 1}], [], ordered=False)
    assert message == "the stored answer has 1 rows, the replayed one 0"
