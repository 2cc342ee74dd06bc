"""Late rows, and rows ahead of the clock."""

import numpy as np
import pytest

from archiver.ingest.lateness import LateRule

TIMES = np.array([100, 385, 101, 95, 80])


def test_rows_after_the_clock_are_ahead() -> None:
    rule = LateRule(clock=100)
    assert rule.flag_ahead(TIMES).tolist() == [False, True, True, False, False]
    assert rule.newest_not_ahead(TIMES) == 100
    assert LateRule(clock=50).newest_not_ahead(TIMES) is None


def test_no_row_is_ahead_of_an_unknown_clock() -> None:
    rule = LateRule()
    assert not rule.flag_ahead(TIMES).any()
    assert rule.newest_not_ahead(TIMES) == 385


@pytest.mark.parametrize(
    ("rule", "late", "by_ahead"),
    [
        (LateRule(), [], []),
        (LateRule(clock=100, before=90, before_by_rows=90), [4], []),
        (LateRule(clock=100, before=101, before_by_rows=90), [0, 3, 4], [0, 3]),
        (LateRule(clock=100, before=101), [0, 3, 4], [0, 3, 4]),
        # Behind the first row by more than 10; not behind the row ahead.
        (LateRule(clock=100, lateness=10), [4], []),
        (LateRule(clock=100, lateness=4, newest=98), [3, 4], []),
        (LateRule(clock=100, lateness=10, before=96), [3, 4], [3]),
        (LateRule(clock=None, lateness=10), [2, 3, 4], []),
    ],
)
def test_late_rows(rule: LateRule, late: list[int], by_ahead: list[int]) -> None:
    late_rows = rule.flag_late(TIMES)
    assert np.flatnonzero(late_rows.late).tolist() == late
    assert np.flatnonzero(late_rows.by_ahead).tolist() == by_ahead


def test_rows_of_a_partition_are_compared_with_earlier_slices() -> None:
    rule = LateRule(clock=100, lateness=10, newest=20)
    assert not rule.flag_late(TIMES[4:]).late.any()
    assert rule.flag_late(TIMES[4:], newest=100).late.all()
