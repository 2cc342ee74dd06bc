"""Hours and cycles by the clock of a zone."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from archiver.times import from_micros, to_micros
from recall.history_ranges import DAY, HOUR
from recall.norms.cycles import find_cycles, to_local

ZONES = ("UTC", "Europe/Rome", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu")
FIRST = to_micros(datetime(2026, 3, 1, tzinfo=ZoneInfo("UTC")))


@given(
    zone=st.sampled_from(ZONES),
    minutes=st.lists(st.integers(0, 400 * 1440), min_size=1, max_size=20),
    event_minute=st.integers(0, 400 * 1440),
)
@example("Europe/Rome", [28 * 1440 + 60, 28 * 1440 + 59], 30 * 1440)
def test_rows_are_in_the_hour_that_the_clock_shows(
    zone: str, minutes: list[int], event_minute: int
) -> None:
    times = FIRST + np.array(minutes, np.int64) * 60_000_000
    event_ts = FIRST + event_minute * 60_000_000
    local = to_local(zone, times)
    clocks = [
        from_micros(ts).astimezone(ZoneInfo(zone)).replace(tzinfo=None) for ts in times.tolist()
    ]
    event = from_micros(event_ts).astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    days = find_cycles("hour_of_day", zone, times, local, event_ts)
    weeks = find_cycles("hour_of_week", zone, times, local, event_ts)
    for number, clock in enumerate(clocks):
        is_other_day = clock.date() != event.date()
        same_hour = clock.hour == event.hour
        assert days.in_season[number] == (same_hour and is_other_day)
        same_hour &= clock.weekday() == event.weekday()
        monday, event_monday = (
            moment.date() - timedelta(days=moment.weekday()) for moment in (clock, event)
        )
        assert weeks.in_season[number] == (same_hour and monday != event_monday)


def test_without_a_season_each_day_before_the_event_is_a_cycle() -> None:
    event_ts = FIRST + 5 * HOUR
    times = event_ts - np.array([1, DAY - 1, DAY, DAY + 1, 3 * DAY], np.int64)
    cycles = find_cycles("none", "UTC", times, times, event_ts)
    assert cycles.in_season.all()
    assert cycles.numbers.tolist() == [-1, -1, -1, -2, -3]


@pytest.mark.parametrize("zone", ZONES)
def test_no_rows_have_no_local_times(zone: str) -> None:
    assert to_local(zone, np.empty(0, np.int64)).tolist() == []
