"""Fixed time intervals in SQL."""

from datetime import timedelta

import pytest

from recall.query.intervals import parse_interval


@pytest.mark.parametrize(
    ("text", "interval"),
    [
        ("5 minutes", timedelta(minutes=5)),
        ("INTERVAL 1 hour 30 minutes", timedelta(minutes=90)),
        ("-2 days", timedelta(days=-2)),
        ("1 week 1 microsecond", timedelta(weeks=1, microseconds=1)),
    ],
)
def test_intervals_are_parsed(text: str, interval: timedelta) -> None:
    assert parse_interval(text) == interval


@pytest.mark.parametrize("text", ["", "5", "minutes", "1 month", "1 year", "1.5 hours", "5 min 3"])
def test_intervals_without_fixed_length_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="is not a fixed interval"):
        parse_interval(text)


@pytest.mark.parametrize(
    "text", ["40000 days", "999999999999 weeks", "-99999999999 weeks", "1000000000000 seconds"]
)
def test_intervals_above_100_years_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="is longer than 100 years"):
        parse_interval(text)
