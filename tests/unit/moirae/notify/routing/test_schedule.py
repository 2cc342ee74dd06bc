"""Windows of a cron expression."""

from datetime import UTC, datetime, timedelta

import pytest

from moirae.notify.routing.schedule import Recurrence


@pytest.mark.parametrize(
    ("hour", "minute", "is_inside"),
    [(2, 0, True), (3, 59, True), (4, 0, False), (1, 59, False)],
)
def test_window_contains_its_start_and_not_its_end(hour: int, minute: int, is_inside: bool) -> None:
    time = datetime(2026, 11, 27, hour, minute, tzinfo=UTC)
    assert Recurrence("0 2 * * *", timedelta(hours=2)).contains(time) is is_inside


def test_expression_is_of_its_time_zone() -> None:
    time = datetime(2026, 11, 27, 1, 30, tzinfo=UTC)
    assert Recurrence("0 2 * * *", timedelta(hours=1), "Europe/Rome").contains(time)


@pytest.mark.parametrize(
    ("fields", "days"),
    [
        ("* * 6", "sat"),
        ("* * 0", "sun"),
        ("* * 7", "sun"),
        ("* * sun", "sun"),
        ("* * SAT,mon", "mon sat"),
        ("* * 1-5", "mon tue wed thu fri"),
        ("* * 5-7", "sun fri sat"),
        ("* * fri-mon", "sun mon fri sat"),
        ("* * */2", "sun tue thu sat"),
        ("* * 4/2", "thu sat"),
        ("* * *", "sun mon tue wed thu fri sat"),
        # November 25, 2026 is a Wednesday; days of the month and of the week are alternatives.
        ("25 * 1", "mon wed"),
        ("25 * *", "wed"),
        ("*/2 * 1", "mon"),
        ("25 12 *", ""),
    ],
)
def test_days_are_those_of_cron(fields: str, days: str) -> None:
    window = Recurrence(f"0 2 {fields}", timedelta(hours=1))
    sunday = datetime(2026, 11, 22, 2, 30, tzinfo=UTC)
    week = [sunday + timedelta(days=number) for number in range(7)]
    assert [f"{day:%a}".lower() for day in week if window.contains(day)] == days.split()


@pytest.mark.parametrize("cron", ["* * * *", "0 2 * * 8", "0 2 * * x", "0 2 * * 1/0", "@daily"])
def test_invalid_expression_is_refused(cron: str) -> None:
    with pytest.raises(ValueError, match="invalid schedule"):
        Recurrence(cron, timedelta(hours=1))


@pytest.mark.parametrize(
    ("cron", "hours", "zone"),
    [("x", 1, "UTC"), ("0 2 * * *", 0, "UTC"), ("0 2 * * *", 1, "No/Zone")],
)
def test_invalid_window_is_refused(cron: str, hours: int, zone: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Recurrence(cron, timedelta(hours=hours), zone)
