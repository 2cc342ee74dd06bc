"""What a norm says."""

import numpy as np
import pytest

from recall.history_ranges import DAY, HOUR
from recall.norms.exclusions import Exclusions
from recall.norms.words import (
    describe_cycles,
    describe_exclusions,
    describe_history,
    describe_length,
    describe_position,
    describe_seen,
)

THOUSAND = np.arange(1_000, dtype=float)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (993, "higher than 99.3 % of the same hour"),
        (1_000, "higher than ever at the same hour"),
        (-1, "lower than ever at the same hour"),
        (5, "lower than 99.4 % of the same hour"),
    ],
)
def test_position_is_a_share_of_the_same_hour(value: float, text: str) -> None:
    assert describe_position(value, THOUSAND, "hour_of_day") == text


def test_share_below_one_is_not_rounded_to_all() -> None:
    values = np.arange(10_000, dtype=float)
    assert describe_position(9_999, values, "none") == "higher than 99.9 % of all values"
    assert describe_position(10_001, values, "none") == "higher than ever"
    assert describe_position(3, np.full(9, 3.0), "none") == "equal to all values"


@pytest.mark.parametrize(
    ("seen", "with_alert", "text"),
    [
        (0, 0, "not seen in 8 weeks"),
        (1, 1, "seen once in 8 weeks, with an alert"),
        (4, 4, "seen 4 times in 8 weeks, each time with an alert"),
        (4, 1, "seen 4 times in 8 weeks, once with an alert"),
        (2, 0, "seen twice in 8 weeks, without an alert"),
    ],
)
def test_earlier_cycles_are_counted(seen: int, with_alert: int, text: str) -> None:
    assert describe_seen(seen, with_alert, "8 weeks") == text


def test_lengths_have_the_largest_unit_that_divides_them() -> None:
    lengths = (7 * DAY, 10 * DAY, 36 * HOUR, HOUR // 2, 1_500_000)
    assert [describe_length(span) for span in lengths] == [
        "1 week",
        "10 days",
        "36 hours",
        "30 minutes",
        "1.5 seconds",
    ]


@pytest.mark.parametrize(
    ("rows_span", "text"),
    [
        (56 * DAY, "8 weeks"),
        (52 * DAY, "8 weeks"),
        (38 * DAY, "5 weeks"),
        (5 * HOUR + 7, "5 hours"),
    ],
)
def test_history_is_as_long_as_its_rows(rows_span: int, text: str) -> None:
    assert describe_history(56 * DAY, rows_span) == text


def test_cycles_are_too_few_below_four() -> None:
    assert describe_cycles(3, "hour_of_week") == "too few cycles: 3 weeks of at least 4"
    assert describe_cycles(1, "none") == "too few cycles: 1 day of at least 4"
    assert describe_cycles(54, "hour_of_day") == "over 54 days"


def test_spans_that_count_again_have_their_reasons() -> None:
    exclusions = Exclusions((), np.zeros(0, bool), lasting=1, no_action=2, too_few=1)
    assert describe_exclusions(exclusions, "incidents")[0].startswith("1 past incident counts")
    assert describe_exclusions(exclusions, "alerts") == [
        "1 past alert counts again (longer than a tenth of the range)",
        "2 past alerts count again (resolved as no action needed)",
        "1 past alert counts again (too few cycles would remain)",
    ]
