"""What fails is isolated with few repetitions, and nothing else is lost."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall.engines.isolation import run_isolated, split_in_halves, split_into_items


class Failing:
    """An action that fails for sequences with any of some items; records its calls."""

    def __init__(self, *failing: int) -> None:
        self.failing = failing
        self.calls: list[Sequence[int]] = []

    def __call__(self, items: Sequence[int]) -> list[int]:
        self.calls.append(items)
        if not set(self.failing).isdisjoint(items):
            raise ValueError(f"failed for {items}")
        return list(items)


def test_failing_item_is_isolated_by_halves() -> None:
    action = Failing(2)
    outcomes = list(run_isolated(range(4), action, (ValueError,)))
    assert [list(call) for call in action.calls] == [[0, 1, 2, 3], [0, 1], [2, 3], [2], [3]]
    assert [(list(part), isinstance(outcome, ValueError)) for part, outcome in outcomes] == [
        ([0, 1], False),
        ([2], True),
        ([3], False),
    ]


def test_caller_decides_how_a_part_is_split() -> None:
    action = Failing(1)

    def split(items: Sequence[int], error: Exception) -> list[Sequence[int]]:
        assert isinstance(error, ValueError)
        return [items[:1], items[1:]] if len(items) > 2 else []

    outcomes = [
        (list(part), isinstance(outcome, ValueError))
        for part, outcome in run_isolated(range(3), action, (ValueError,), split)
    ]
    assert outcomes == [([0], False), ([1, 2], True)]


def test_other_errors_are_raised() -> None:
    with pytest.raises(ValueError, match="failed"):
        list(run_isolated([1, 2], Failing(2), (KeyError,)))


@given(st.integers(1, 40), st.sets(st.integers(0, 39)))
def test_each_item_has_one_outcome(count: int, failing: set[int]) -> None:
    action = Failing(*failing)
    succeeded: list[int] = []
    failed: list[int] = []
    for part, outcome in run_isolated(range(count), action, (ValueError,)):
        if isinstance(outcome, Exception):
            failed += part
        else:
            succeeded += outcome
    assert failed == sorted(failing & set(range(count)))
    assert succeeded == sorted(set(range(count)) - failing)


def test_part_that_fails_is_repeated_for_a_smaller_part_only() -> None:
    action = Failing(3)

    def split(items: Sequence[int], error: Exception) -> list[Sequence[int]]:
        return [items[:1]] if len(items) > 1 else []

    assert list(run_isolated([1, 2, 3], action, (ValueError,), split)) == [([1], [1])]
    assert action.calls == [[1, 2, 3], [1]]


def test_error_that_interrupts_is_raised_by_split() -> None:
    def split(items: Sequence[int], error: Exception) -> list[Sequence[int]]:
        raise KeyError("interrupted") from error

    with pytest.raises(KeyError, match="interrupted"):
        list(run_isolated([1, 2], Failing(2), (Exception,), split))


def test_single_item_is_not_split() -> None:
    assert split_into_items([1, 2, 3]) == [[1], [2], [3]]
    assert split_into_items([1]) == []
    assert split_in_halves([1], ValueError()) == []
