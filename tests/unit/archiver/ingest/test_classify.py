"""Classification of rows by identity, and late rows."""

import numpy as np
import pytest

from archiver.delta import build_entries
from archiver.ingest.classify import (
    Array,
    classify,
    distinct_integers,
    flag_late,
    flag_late_in_order,
    late_bound,
    latest,
)


def entries(*rows: tuple[str, int, int, int]) -> Array:
    """Index entries of (id, content hash, unit, line)."""
    ids, hashes, units, lines = zip(*rows, strict=True)
    return build_entries(
        [row_id.encode().ljust(16, b"-") for row_id in ids],
        np.array(hashes),
        np.array(units),
        np.array(lines),
    )


def test_row_is_compared_with_the_archived_row_of_the_same_identity() -> None:
    rows = entries(("a", 1, 7, 1), ("b", 1, 7, 2), ("c", 1, 7, 3), ("d", 2, 7, 4))
    archived = entries(("-", 0, 0, 0), ("b", 1, 7, 2), ("c", 1, 6, 3), ("d", 1, 6, 1))
    result = classify(rows, np.array([False, True, True, True]), archived)
    assert result.new.tolist() == [True, False, False, False]
    assert result.replayed.tolist() == [False, True, False, False]
    assert result.duplicate.tolist() == [False, False, True, False]
    assert result.conflict.tolist() == [False, False, False, True]


def test_first_row_of_an_identity_in_a_batch_is_new() -> None:
    rows = entries(("a", 1, 7, 1), ("a", 1, 7, 2), ("a", 2, 7, 3))
    result = classify(rows, np.zeros(3, dtype=bool), np.zeros_like(rows))
    assert result.new.tolist() == [True, False, False]
    assert result.duplicate.tolist() == [False, True, False]
    assert result.conflict.tolist() == [False, False, True]


def test_rows_before_the_bound_are_late() -> None:
    assert flag_late(np.array([9, 10, 11]), 10).tolist() == [True, False, False]
    assert flag_late(np.array([9, 10, 11]), None).tolist() == [False, False, False]


@pytest.mark.parametrize(
    ("newest", "bound", "expected"),
    [
        (None, None, [False, False, True, False]),
        (30, None, [True, False, True, False]),
        (None, 31, [True, True, True, True]),
    ],
)
def test_row_is_late_relative_to_preceding_rows(
    newest: int | None, bound: int | None, expected: list[bool]
) -> None:
    ts = np.array([10, 30, 15, 21])
    none_ahead = np.zeros(4, dtype=bool)
    is_late = flag_late_in_order(ts, newest, lateness=10, bound=bound, is_ahead=none_ahead)
    assert is_late.tolist() == expected


def test_row_is_not_late_relative_to_rows_ahead_of_the_clock() -> None:
    ts = np.array([10, 300, 15, 30, 15])
    is_late = flag_late_in_order(ts, 12, lateness=10, bound=None, is_ahead=ts > 100)
    assert is_late.tolist() == [False, False, False, False, True]
    no_rows = flag_late_in_order(ts[:0], None, lateness=10, bound=None, is_ahead=ts[:0] > 100)
    assert no_rows.tolist() == []


def test_late_bound_is_the_later_of_newest_minus_lateness_and_advance() -> None:
    assert late_bound(None, 10, None) is None
    assert late_bound(50, 10, None) == 40
    assert late_bound(50, 10, 45) == 45
    assert late_bound(None, 10, 5) == 5


def test_latest_ignores_missing_times() -> None:
    assert latest(None, 0, -5) == 0
    assert latest() is None


def test_distinct_integers_are_ascending() -> None:
    assert distinct_integers(np.array([3, 0, 3, 1], dtype="i4")) == [0, 1, 3]
    assert distinct_integers(np.array([], dtype="i4")) == []


def test_identities_with_an_equal_half_are_different() -> None:
    rows = build_entries(
        [b"same----differen", b"same----elsewher", b"same----differen"],
        np.array([1, 2, 1]),
        np.array([7, 7, 7]),
        np.array([1, 2, 3]),
    )
    result = classify(rows, np.zeros(3, dtype=bool), np.zeros_like(rows))
    assert result.new.tolist() == [True, True, False]
    assert result.duplicate.tolist() == [False, False, True]
