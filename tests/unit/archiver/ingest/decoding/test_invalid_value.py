"""Values quoted in error messages."""

import pytest

from archiver.ingest.decoding.invalid_value import abbreviate


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.5, "1.5"), ("ten", "'ten'"), (True, "true"), ({"a": [None]}, '{"a":[null]}')],
)
def test_value_is_quoted_as_the_record_spells_it(value: object, text: str) -> None:
    assert abbreviate(value) == text


def test_long_value_is_shortened() -> None:
    assert abbreviate("x" * 100) == "'" + "x" * 56 + "..."
