"""How rows and items are divided among tasks."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archiver.executors.grouping import (
    choose_task_count,
    divide_evenly,
    find_shared_times,
    is_within,
)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [(10, 1), (60_000, 2), (200_000, 4), (800_000, 4), (1_000_000, 6), (10_000_000, 50)],
)
def test_tasks_are_a_multiple_of_the_cores_unless_they_are_small(rows: int, expected: int) -> None:
    assert choose_task_count(rows, 2, 25_000, 200_000) == expected


@given(st.lists(st.integers(0, 1_000), max_size=50), st.integers(1, 10))
def test_groups_are_consecutive_and_of_about_equal_size(sizes: list[int], count: int) -> None:
    groups = divide_evenly(sizes, count)
    assert [size for group in groups for size in sizes[group]] == sizes
    assert all(sizes[group] for group in groups) and len(groups) <= count
    largest = max(sizes, default=0)
    assert all(sum(sizes[group]) <= sum(sizes) / count + largest for group in groups)


@dataclass(frozen=True)
class _Rows:
    oldest: int | None
    newest: int | None
    rows: int = 1


@st.composite
def _segments(draw: st.DrawFn) -> _Rows:
    if draw(st.booleans()):
        return _Rows(None, None, 0)
    oldest = draw(st.integers(0, 20))
    return _Rows(oldest, oldest + draw(st.integers(0, 5)))


@given(st.lists(st.lists(_segments(), max_size=3), max_size=5))
def test_a_time_is_shared_if_it_is_within_the_ranges_of_two_tasks(tasks: list[list[_Rows]]) -> None:
    bounds = find_shared_times(tasks)
    times = np.arange(-1, 30)
    expected: list[bool] = []
    for time in times.tolist():
        count = 0
        for segments in tasks:
            oldest = [rows.oldest for rows in segments if rows.oldest is not None]
            newest = [rows.newest for rows in segments if rows.newest is not None]
            count += bool(oldest) and min(oldest) <= time <= max(newest)
        expected.append(count > 1)
    assert is_within(bounds, times).tolist() == expected
    assert bounds == sorted(bounds)
