"""How rows and items are divided among tasks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archiver.executors.grouping import choose_task_count, divide_evenly


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
