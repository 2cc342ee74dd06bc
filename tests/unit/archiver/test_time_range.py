"""Ranges of event time: the end is excluded, the start may be open."""

import numpy as np
import pytest

from archiver.time_range import ALL_TIME, TimeRange, merge_ranges


@pytest.mark.parametrize(("ts", "is_contained"), [(9, False), (10, True), (19, True), (20, False)])
def test_range_contains_its_start_but_not_its_end(ts: int, is_contained: bool) -> None:
    assert TimeRange(10, 20).contains(ts) == is_contained
    assert TimeRange(None, 20).contains(ts) == (ts < 20)


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [
        (TimeRange(10, 20), TimeRange(15, 30), TimeRange(15, 20)),
        (TimeRange(None, 20), TimeRange(15, 30), TimeRange(15, 20)),
        (TimeRange(None, 20), TimeRange(None, 30), TimeRange(None, 20)),
    ],
)
def test_intersection_of_overlapping_ranges(
    first: TimeRange, second: TimeRange, both: TimeRange
) -> None:
    assert first.intersect(second) == second.intersect(first) == both
    assert first.overlaps(second)


def test_adjacent_ranges_do_not_overlap() -> None:
    assert not TimeRange(10, 20).overlaps(TimeRange(20, 30))
    assert not TimeRange(None, 20).overlaps(TimeRange(20, 30))


def test_range_without_any_time_is_empty() -> None:
    assert TimeRange(20, 20).is_empty
    assert not TimeRange(None, 20).is_empty


def test_the_mask_is_true_for_contained_times() -> None:
    times = np.array([9, 10, 19, 20])
    assert TimeRange(10, 20).mask(times).tolist() == [False, True, True, False]
    assert ALL_TIME.mask(times).all()


@pytest.mark.parametrize(
    ("oldest", "newest", "overlaps"),
    [(1, 9, False), (1, 10, True), (19, 30, True), (20, 30, False)],
)
def test_times_overlap_a_range_if_one_of_them_lies_in_it(
    oldest: int, newest: int, overlaps: bool
) -> None:
    assert TimeRange(10, 20).overlaps_times(oldest, newest) is overlaps
    assert ALL_TIME.overlaps_times(oldest, newest)


def test_no_times_overlap_an_empty_range() -> None:
    assert not TimeRange(15, 15).overlaps_times(10, 20)
    assert not TimeRange(20, 10).overlaps_times(5, 30)


def test_the_enclosing_range_is_unbounded_where_one_of_both_is() -> None:
    assert TimeRange(10, 20).enclose(TimeRange(30, 40)) == TimeRange(10, 40)
    assert TimeRange(10).enclose(TimeRange(None, 20)) == ALL_TIME


def test_bounds_are_shifted_where_there_are_any() -> None:
    assert TimeRange(10, 20).shift(start=-5, end=1) == TimeRange(5, 21)
    assert TimeRange(10).shift(start=-5, end=1) == TimeRange(5)
    assert ALL_TIME.shift(start=-5, end=1) == ALL_TIME


def test_a_range_without_an_end_contains_all_later_times() -> None:
    assert TimeRange(10).contains(1 << 62) and not TimeRange(10).contains(9)
    assert TimeRange(10).intersect(TimeRange(None, 12)) == TimeRange(10, 12)
    assert not TimeRange(10).is_empty


def test_merged_ranges_are_apart_and_ascending() -> None:
    ranges = [
        TimeRange(30, 40),
        TimeRange(5, 8),
        TimeRange(None, 3),
        TimeRange(8, 10),
        TimeRange(35),
    ]
    assert merge_ranges(ranges) == (TimeRange(None, 3), TimeRange(5, 10), TimeRange(30))
    assert merge_ranges([TimeRange(3, 9), TimeRange(4, 5)]) == (TimeRange(3, 9),)
    assert merge_ranges([]) == ()
