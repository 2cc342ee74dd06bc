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
    ("cron", "hours", "zone"),
    [("x", 1, "UTC"), ("0 2 * * *", 0, "UTC"), ("0 2 * * *", 1, "No/Zone")],
)
def test_invalid_window_is_refused(cron: str, hours: int, zone: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Recurrence(cron, timedelta(hours=hours), zone)
