"""Differences of keyed rows, and their replay."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall.revisions.changes import RowChange, diff, replay

ROWS = st.dictionaries(
    st.sampled_from("abcdef"), st.fixed_dictionaries({"n": st.integers(0, 3)}), max_size=6
)


@given(st.lists(ROWS, max_size=6))
def test_replay_of_differences_leads_to_the_last_rows(
    answers: list[dict[str, dict[str, int]]],
) -> None:
    changes: list[RowChange] = []
    before: dict[str, dict[str, int]] = {}
    for answer in answers:
        changes += diff(before, answer)
        assert replay(changes) == answer
        before = answer


def test_equal_rows_give_no_change() -> None:
    assert diff({"a": {"n": 1}}, {"a": {"n": 1.0}}) == []


def test_update_carries_the_old_row() -> None:
    assert diff({"a": {"n": 1}}, {"a": {"n": 2}}) == [RowChange("update", "a", {"n": 2}, {"n": 1})]


@pytest.mark.parametrize("op", ["update", "delete"])
def test_change_of_a_missing_row_is_an_error(op: str) -> None:
    with pytest.raises(ValueError, match="does not exist"):
        replay([RowChange(op, "a", None)])  # type: ignore[arg-type]
