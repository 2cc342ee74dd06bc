"""Pages of lists: cursors, and the arguments of operations."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from pydantic import TypeAdapter, ValidationError

from moirae.errors import UsageError
from moirae.services.models import (
    Seconds,
    Time,
    decode_cursor,
    encode_cursor,
    next_cursor,
    parse_number,
)

MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678_901, UTC)
ID = UUID(int=7)


def test_cursor_holds_a_position_exactly() -> None:
    cursor = encode_cursor(MOMENT, "a recall", ID)
    assert decode_cursor(cursor, datetime.fromisoformat, str, UUID) == (MOMENT, "a recall", ID)
    assert decode_cursor(None, UUID) is None


@pytest.mark.parametrize(
    "cursor", ["", "%", "x", encode_cursor("x", ID), encode_cursor(MOMENT), "é", "a" * 299]
)
def test_invalid_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(UsageError, match="invalid cursor"):
        decode_cursor(cursor, datetime.fromisoformat, UUID)


def test_time_of_a_cursor_has_a_time_zone() -> None:
    with pytest.raises(UsageError, match="invalid cursor"):
        decode_cursor(encode_cursor("2026-01-01"), datetime.fromisoformat)


@pytest.mark.parametrize("text", ["-1", "x", str(1 << 63)])
def test_number_of_a_cursor_must_fit_into_the_database(text: str) -> None:
    with pytest.raises(ValueError, match=text):
        parse_number(text)


def test_last_page_has_no_cursor() -> None:
    assert next_cursor([1, 2], 3, lambda row: (row,)) is None
    assert next_cursor([1, 2, 3], 3, lambda row: (row,)) == encode_cursor(3)


def test_time_is_given_as_a_duration_before_now() -> None:
    parse = TypeAdapter(Time).validate_python
    before = datetime.now(UTC) - timedelta(days=7)
    assert before <= parse("7d") <= before + timedelta(minutes=1)
    assert parse("2026-01-02T03:04:05.678901") == MOMENT
    for text in ("7x", "", "d", "200y"):
        with pytest.raises(ValidationError):
            parse(text)


def test_seconds_are_given_as_a_duration_or_a_number() -> None:
    parse = TypeAdapter(Seconds).validate_python
    assert [parse(value) for value in ("1h30m", "90", 1.5)] == [5400.0, 90.0, 1.5]
    with pytest.raises(ValidationError):
        parse("soon")
