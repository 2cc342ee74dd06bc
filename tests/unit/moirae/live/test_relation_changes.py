"""What a new version of a relation changes, and which versions are held back."""

import pytest

from moirae.live.relation_changes import compare_rows, is_shrunk


def test_rows_are_added_changed_and_removed() -> None:
    in_use = {b"a": {"v": 1}, b"b": {"v": 1}, b"c": {"v": 1}, b"d": None, b"e": None}
    rows = {b"a": {"v": 1}, b"b": {"v": 2}, b"d": {"v": 1}, b"f": {"v": 1}}
    changes = compare_rows(in_use, rows)
    assert changes.added == {b"d": {"v": 1}, b"f": {"v": 1}}
    assert changes.changed == {b"b": {"v": 2}}
    assert changes.removed == [b"c"]


@pytest.mark.parametrize(
    ("in_use", "rows", "held"),
    [
        (40, 19, True),
        (40, 20, False),
        (39, 19, True),
        (38, 19, False),
        (20, 0, True),
        (19, 0, False),
    ],
)
def test_fewer_than_half_and_at_least_20_fewer_is_shrunk(
    in_use: int, rows: int, held: bool
) -> None:
    assert is_shrunk(in_use, rows) == held
