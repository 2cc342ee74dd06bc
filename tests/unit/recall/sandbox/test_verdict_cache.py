"""Types of constants that decide whether two queries are equivalent."""

import pytest

from recall.sandbox.verdict_cache import _constant_type, _have_same_type


@pytest.mark.parametrize(
    ("first", "second"), [("'a'", "'bc'"), ("5", "7"), ("-12", "-34"), ("1.25", "9.75")]
)
def test_constants_of_equal_type_and_length_are_equivalent(first: str, second: str) -> None:
    assert _have_same_type(first, second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("'a'", "5"),
        ("5", "42"),
        ("5", "-5"),
        ("2147483647", "2147483648"),
        ("1.25", "1.5"),
        ("1.5", "15"),
    ],
)
def test_constants_of_different_type_or_length_are_not(first: str, second: str) -> None:
    assert not _have_same_type(first, second)


@pytest.mark.parametrize(
    "constant", ["'5'", "'nan'", "99999999999999999999", "9999999999999999999.5", "1" * 31]
)
def test_some_constants_are_equivalent_to_no_other(constant: str) -> None:
    assert _constant_type(constant) is None
