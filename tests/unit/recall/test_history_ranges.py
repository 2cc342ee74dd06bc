"""Ranges of history that recur in local time, and latest local times, minute by minute."""

import itertools
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from archiver.time_range import TimeRange
from archiver.times import Micros, from_micros, to_micros
from recall.history_ranges import MINUTE, Landmark, Recurrence, Season

HOUR = 60 * MINUTE
DAY = 24 * HOUR
ZONES = ("UTC", "Europe/Rome", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu")
# Days around which clocks change in some of the zones: the last Sundays of March and October 2026.
CHANGES = (datetime(2026, 3, 29, tzinfo=UTC), datetime(2026, 10, 25, tzinfo=UTC))


def at(text: str, zone: str = "UTC") -> Micros:
    return to_micros(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)))


def belongs(ts: Micros, event_ts: Micros, season: Season) -> bool:
    """Whether a time belongs to the season of an event, by the clock in its zone."""
    local, event = (
        from_micros(moment).astimezone(ZoneInfo(season.zone)).replace(tzinfo=None)
        for moment in (ts, event_ts)
    )
    period = timedelta(days=1 if season.same == "hour_of_day" else 7)
    if season.around is not None:
        around = timedelta(microseconds=season.around)
        return (local - event + around) % period < 2 * around
    if season.same == "day_of_week":
        return local.weekday() == event.weekday()
    same_hour = local.hour == event.hour
    return same_hour and (season.same == "hour_of_day" or local.weekday() == event.weekday())


@given(
    same=st.sampled_from(["hour_of_day", "hour_of_week", "day_of_week"]),
    zone=st.sampled_from(ZONES),
    around=st.none() | st.integers(1, 300),
    change=st.sampled_from(CHANGES),
    event_minute=st.integers(-3 * 1440, 12 * 1440),
    last=st.integers(1, 16 * 1440),
    offset=st.integers(0, 3000),
)
@example("hour_of_day", "Europe/Rome", None, CHANGES[0], 4 * 1440 + 30, 8 * 1440, 0)  # 02:30
@example("hour_of_day", "Europe/Rome", None, CHANGES[1], 4 * 1440 + 60, 8 * 1440, 0)
@example("hour_of_week", "Europe/Rome", 30, CHANGES[1], 7 * 1440 + 70, 8 * 1440, 0)
def test_season_is_what_clocks_show(
    same: Recurrence,
    zone: str,
    around: int | None,
    change: datetime,
    event_minute: int,
    last: int,
    offset: int,
) -> None:
    if same == "day_of_week":
        around = None
    event_ts = to_micros(change) + event_minute * MINUTE
    span = TimeRange(event_ts - last * MINUTE, event_ts - min(offset, last) * MINUTE)
    season = Season(same, zone, None if around is None else around * MINUTE)
    ranges = season.find_ranges(span, event_ts)
    assert span.start is not None and span.end is not None
    for before, after in itertools.pairwise(ranges):
        assert before.end is not None and after.start is not None and before.end < after.start
    for ts in range(span.start, span.end, MINUTE):
        is_inside = any(part.contains(ts) for part in ranges)
        assert is_inside == belongs(ts, event_ts, season), from_micros(ts)
    assert not any(part.contains(ts) for part in ranges for ts in (span.start - 1, span.end))


@pytest.mark.parametrize(
    ("day", "hours"), [("2026-03-30", 6), ("2026-10-26", 8), ("2026-07-01", 7)]
)
def test_hour_that_clocks_skip_or_show_twice(day: str, hours: int) -> None:
    """02:00 to 03:00 in Rome has no time on 29 March 2026, and two hours on 25 October."""
    event_ts = at(f"{day}T02:30:00", "Europe/Rome")
    week_before = date.fromisoformat(day) - timedelta(days=7)
    span = TimeRange(at(f"{week_before}", "Europe/Rome"), at(day, "Europe/Rome"))
    ranges = Season("hour_of_day", "Europe/Rome").find_ranges(span, event_ts)
    assert sum(end - start for start, end in ranges if start and end) == hours * HOUR


@given(
    zone=st.sampled_from(ZONES),
    change=st.sampled_from(CHANGES),
    minute=st.integers(-2 * 1440, 3 * 1440),
    time_of_day=st.integers(0, 1439),
)
@example("Europe/Rome", CHANGES[1], 70, 130)  # 02:10, the second time
@example("Europe/Rome", CHANGES[0], 70, 150)  # 02:30 was skipped at 03:00
def test_landmark_is_what_clocks_showed_last(
    zone: str, change: datetime, minute: int, time_of_day: int
) -> None:
    ts = to_micros(change) + minute * MINUTE
    latest = Landmark(time_of_day * MINUTE, zone).find_before(ts)
    info = ZoneInfo(zone)
    # The first minute of each local day at which its clock shows the time or a later one.
    firsts: dict[object, Micros] = {}
    for moment in range(ts - 4 * DAY, ts + MINUTE, MINUTE):
        local = from_micros(moment).astimezone(info)
        if local.hour * 60 + local.minute >= time_of_day:
            firsts.setdefault(local.date(), moment)
    firsts.pop(min(firsts))  # it may have begun before
    assert latest == max(firsts.values())
