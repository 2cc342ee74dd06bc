"""Landmarks in runs are those that a clock shows, on days of daylight saving too."""

import random

import pytest

from archiver.times import Micros
from recall.history_ranges import DAY, MINUTE, SECOND, Landmark, parse_landmark
from recall.query.landmarks import alignment, landmark_runs, longest_distance

HOUR = 60 * MINUTE
ZONES = (
    "UTC",
    "Europe/Rome",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Africa/Casablanca",
    "Antarctica/Casey",
    "Africa/Monrovia",
)


def find_in_runs(landmark: Landmark, ts: Micros) -> Micros:
    """The latest landmark up to a time, as queries compute it."""
    for run in landmark_runs(landmark):
        if run.first <= ts < run.end:
            return run.first + min((ts - run.first) // DAY, run.days - 1) * DAY
    raise AssertionError("each time has a landmark")


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("minutes", [0, 150, 180, 420, 1425])
def test_runs_have_the_landmark_before_each_time(zone: str, minutes: int) -> None:
    landmark = Landmark(minutes * MINUTE, zone)
    rng = random.Random(minutes)
    times = [rng.randrange(2 * DAY, 36_800 * DAY) for _ in range(200)]
    for run in landmark_runs(landmark)[1:]:
        for distance in (-1, 0, -DAY, DAY - 1, DAY, HOUR, -HOUR):
            times.append(run.first + distance)
    for ts in times:
        if 2 * DAY < ts < 36_880 * DAY:
            assert find_in_runs(landmark, ts) == landmark.find_before(ts)


def test_days_before_and_after_the_known_years_are_as_the_first_and_the_last() -> None:
    landmark = Landmark(7 * HOUR, "Europe/Rome")
    assert find_in_runs(landmark, -50_000 * DAY) == -50_000 * DAY - 18 * HOUR
    assert find_in_runs(landmark, 50_000 * DAY) == 50_000 * DAY - 18 * HOUR


@pytest.mark.parametrize(
    ("zone", "hours"), [("UTC", 24), ("Europe/Rome", 25), ("Antarctica/Casey", 27)]
)
def test_longest_distance_is_that_of_the_longest_day(zone: str, hours: int) -> None:
    assert longest_distance(Landmark(7 * HOUR, zone)) == hours * HOUR


@pytest.mark.parametrize(
    ("time_of_day", "zone", "step", "common"),
    [
        ("07:00", "Europe/Rome", HOUR, HOUR),
        ("07:00", "Europe/Rome", 5 * MINUTE, 5 * MINUTE),
        ("07:10", "Europe/Rome", HOUR, 10 * MINUTE),
        ("07:00", "Asia/Kathmandu", HOUR, 15 * MINUTE),
        ("07:00", "Africa/Monrovia", MINUTE, 30 * SECOND),
    ],
)
def test_landmarks_and_ends_are_aligned(
    time_of_day: str, zone: str, step: Micros, common: Micros
) -> None:
    assert alignment(parse_landmark(time_of_day, zone), step) == common


@pytest.mark.parametrize(
    ("time_of_day", "zone", "message"),
    [("25:00", "UTC", "not a time of the day"), ("07:00", "Mars/Base", "unknown time zone")],
)
def test_other_landmarks_are_rejected(time_of_day: str, zone: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_landmark(time_of_day, zone)
