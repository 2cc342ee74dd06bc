"""Time intervals: what they contain, and what is refused."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from moirae.config.time_intervals import TimeInterval

WEDNESDAY = datetime(2026, 11, 25, 9, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("interval", "is_inside"),
    [
        ({}, True),
        ({"times": [{"start_time": "09:00", "end_time": "17:00"}]}, True),
        ({"times": [{"start_time": "09:00", "end_time": "09:30"}]}, False),
        ({"times": [{"start_time": "09:30", "end_time": "24:00"}]}, True),
        ({"weekdays": ["monday:friday"]}, True),
        ({"weekdays": ["saturday", "Sunday"]}, False),
        ({"weekdays": ["sunday:wednesday"]}, True),
        ({"weekdays": ["tuesday:sunday"]}, True),
        ({"weekdays": ["thursday:tuesday"]}, False),
        ({"days_of_month": ["25:31"]}, True),
        ({"days_of_month": ["-6:-1"]}, True),
        ({"days_of_month": ["-5:-1"]}, False),
        ({"days_of_month": ["1:-1"]}, True),
        ({"months": ["november:december"], "years": ["2026"]}, True),
        ({"months": ["1:10"]}, False),
        ({"years": ["2020:2025"]}, False),
        (
            {
                "times": [{"start_time": "10:00", "end_time": "11:00"}],
                "location": "Europe/Rome",
            },
            True,
        ),
    ],
)
def test_time_is_inside_if_all_parts_contain_it(interval: dict[str, Any], is_inside: bool) -> None:
    assert TimeInterval.model_validate(interval).contains(WEDNESDAY) is is_inside


@pytest.mark.parametrize(
    ("time", "is_inside"),
    [
        ("2026-03-29T00:30+00:00", False),  # 01:30
        ("2026-03-29T01:00+00:00", False),  # 03:00: this day has no 02:30
        ("2026-10-25T00:30+00:00", True),  # 02:30, in summer time
        ("2026-10-25T01:30+00:00", True),  # 02:30 once more
        ("2026-10-25T02:00+00:00", False),
    ],
)
def test_hours_of_a_zone_that_are_missing_or_come_twice(time: str, is_inside: bool) -> None:
    night = {"times": [{"start_time": "02:00", "end_time": "03:00"}], "location": "Europe/Rome"}
    interval = TimeInterval.model_validate(night)
    assert interval.contains(datetime.fromisoformat(time)) is is_inside


def test_interval_without_a_location_is_of_utc_whatever_the_zone_of_the_time() -> None:
    interval = TimeInterval.model_validate(
        {"times": [{"start_time": "09:00", "end_time": "10:00"}]}
    )
    assert interval.contains(datetime.fromisoformat("2026-01-01T11:30+02:00"))
    assert not interval.contains(datetime.fromisoformat("2026-01-01T09:30+02:00"))


@pytest.mark.parametrize(
    "interval",
    [
        {"times": [{"start_time": "17:00", "end_time": "09:00"}]},
        {"times": [{"start_time": "9", "end_time": "10:00"}]},
        {"days_of_month": ["22:-18"]},
        {"days_of_month": ["-3:3"]},
        {"months": ["may:april"]},
        {"weekdays": ["1"]},
        {"days_of_month": ["0"]},
        {"days_of_month": ["32"]},
        {"months": ["brumaire"]},
        {"location": "Nowhere/Here"},
    ],
)
def test_invalid_interval_is_refused(interval: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        TimeInterval.model_validate(interval)
