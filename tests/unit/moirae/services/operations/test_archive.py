"""IDs of dead letters."""

import pytest

from moirae.errors import UsageError
from moirae.services.operations.archive import parse_dead_letter_id


def test_id_names_source_unit_and_line() -> None:
    assert parse_dead_letter_id("17:3") == (17, 3)


@pytest.mark.parametrize("text", ["", "17", "17:", ":3", "a:3", "17:3:4", "٣:1", "1:" + "9" * 30])
def test_invalid_id_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="is not a valid dead letter ID, such as 17:3"):
        parse_dead_letter_id(text)
