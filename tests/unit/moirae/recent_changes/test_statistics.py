"""How often changes came before alerts and before other hours."""

import numpy as np
import numpy.typing as npt
import pytest

from moirae.recent_changes.statistics import (
    HOUR,
    HourCounts,
    KeyHistory,
    compare_hours,
    count_preceded,
)

WITHIN = 2 * HOUR


def times(*hours: float) -> npt.NDArray[np.int64]:
    return np.array([round(hour * HOUR) for hour in hours], dtype=np.int64)


def history(alerts: npt.NDArray[np.int64], changes: npt.NDArray[np.int64]) -> KeyHistory:
    return KeyHistory(alerts, alerts + HOUR // 60, changes)


def test_hours_are_counted_by_whether_a_change_came_before_them() -> None:
    compared = compare_hours(
        [history(times(10.25, 50.5), times(9.5, 30.0))], start=0, end=100 * HOUR, within=WITHIN
    )
    assert isinstance(compared, HourCounts)
    assert (compared.alert_hours, compared.with_change) == (2, 1)
    # The middles 9.5 and 11.5 less the hour with the alert, 30.5 and 31.5.
    assert (compared.other_hours, compared.other_with_change) == (98, 3)
    assert compared.ratio == pytest.approx(0.5 / (3 / 98))
    assert compared.low < compared.ratio < compared.high


def test_hours_in_which_an_alert_was_active_are_no_others() -> None:
    lasting = KeyHistory(times(10.5), times(15.2), times(1.0))
    compared = compare_hours([lasting], start=0, end=100 * HOUR, within=WITHIN)
    assert isinstance(compared, HourCounts)
    assert compared.other_hours == 94


@pytest.mark.parametrize(
    ("alerts", "end", "reason"),
    [
        (times(), 100, "no earlier alert"),
        (times(*range(20)), 100, "fewer than 10 hours"),
        (times(), 0.5, "less than an hour"),
    ],
)
def test_too_little_is_named_instead_of_a_ratio(
    alerts: npt.NDArray[np.int64], end: float, reason: str
) -> None:
    compared = compare_hours(
        [history(alerts, times(1.0))], start=0, end=round(end * HOUR), within=WITHIN
    )
    assert isinstance(compared, str)
    assert reason in compared


def test_alerts_that_a_change_came_before_are_counted() -> None:
    changes = [times(1.0), times(1.0), times(), times(3.0)]
    assert count_preceded([2 * HOUR, 4 * HOUR, 2 * HOUR, 2 * HOUR], changes, WITHIN) == 1


@pytest.mark.parametrize("shared", [False, True])
def test_interval_of_changes_that_do_not_matter_contains_one(shared: bool) -> None:
    """In 93 % of histories or more. `shared`: alerts and changes are of all keys at once."""
    random = np.random.default_rng(7)
    contained = 0
    for _ in range(400):
        keys = []
        together = draw(random, 25), draw(random, 40)
        for _ in range(6):
            own = together if shared else (draw(random, 8), draw(random, 20))
            keys.append(history(*own))
        compared = compare_hours(keys, start=0, end=1344 * HOUR, within=6 * HOUR)
        assert isinstance(compared, HourCounts)
        contained += compared.low <= 1 <= compared.high
    assert contained >= 0.93 * 400


def draw(random: np.random.Generator, count: int) -> npt.NDArray[np.int64]:
    """So many times in eight weeks."""
    return np.sort(random.integers(0, 1344 * HOUR, count))
