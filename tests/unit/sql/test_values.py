"""Values for jsonb and text columns."""

from decimal import Decimal

import pytest

from sql.values import replace_nul


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a\x00b", "a␀b"),
        (["a", {"b\x00": ("\x00",)}], ["a", {"b␀": ["␀"]}]),
        ({"a": [1, None, 2.5]}, {"a": [1, None, 2.5]}),
        # Not of the types of orjson.
        ([Decimal(1), "\x00"], [Decimal(1), "␀"]),
        (["\\u0000"], ["\\u0000"]),
        (b"\x00", b"\x00"),
    ],
)
def test_nul_is_replaced_in_all_texts(value: object, expected: object) -> None:
    assert replace_nul(value) == expected
