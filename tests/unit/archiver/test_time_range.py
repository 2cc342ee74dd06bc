"""Ranges of event time: the end is excluded, the start may be open."""

import pytest

from archiver.time_range import TimeRange


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
