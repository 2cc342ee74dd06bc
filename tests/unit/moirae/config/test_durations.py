"""Durations in configuration files."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from moirae.config.durations import (
    MAX_DURATION,
    Duration,
    PositiveDuration,
    format_duration,
    parse_duration,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0s", 0),
        ("500ms", 0.5),
        ("10s", 10),
        ("5m", 300),
        ("1h30m", 5400),
        ("1m5ms", 60.005),
        ("7d", 604_800),
        ("2w", 1_209_600),
        ("1w1d1h1m1s1ms", 694_861.001),
    ],
)
def test_duration_is_parsed(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5",
        "m",
        "5 m",
        " 5m",
        "5m\n",
        "1m1h",
        "1s1s",
        "1.5h",
        "-5m",
        "5M",
        "12:30:45",
        "PT5M",
        "٥m",
    ],
)
def test_invalid_duration_is_rejected_with_examples(text: str) -> None:
    with pytest.raises(
        ValueError, match=r"is not a duration; write a number with a unit, such as 500ms, 10s"
    ):
        parse_duration(text)


@pytest.mark.parametrize("text", ["36501d", "999999999w", "999999999w999999999d999999999h"])
def test_duration_over_a_hundred_years_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="longer than 100 years"):
        parse_duration(text)


@given(st.integers(0, int(MAX_DURATION.total_seconds() * 1000)))
def test_formatted_duration_parses_to_the_same_value(milliseconds: int) -> None:
    span = timedelta(milliseconds=milliseconds)
    assert parse_duration(format_duration(span)) == span


@given(st.text())
def test_any_text_is_parsed_or_rejected(text: str) -> None:
    with suppress(ValueError):
        assert timedelta(0) <= parse_duration(text) <= MAX_DURATION


@pytest.mark.parametrize(
    ("span", "text"), [(timedelta(0), "0s"), (timedelta(days=14, minutes=90), "14d1h30m")]
)
def test_duration_is_formatted_with_the_largest_units(span: timedelta, text: str) -> None:
    assert format_duration(span) == text


@pytest.mark.parametrize("span", [timedelta(seconds=-1), timedelta(microseconds=1)])
def test_negative_and_sub_millisecond_durations_are_not_formatted(span: timedelta) -> None:
    with pytest.raises(ValueError, match="non-negative number of milliseconds"):
        format_duration(span)


def test_number_without_unit_is_rejected() -> None:
    for number in (5, 1.5, True):
        with pytest.raises(ValidationError, match="a duration needs a unit"):
            TypeAdapter(Duration).validate_python(number)


def test_positive_durations_exclude_zero() -> None:
    with pytest.raises(ValidationError, match="must be longer than 0s"):
        TypeAdapter(PositiveDuration).validate_python("0s")
