"""Bounds of the most frequent values, against exact counts."""

import random
from collections import Counter
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from recall.operators.frequent import (
    Bounds,
    FrequentValues,
    frequent_values,
    merge_frequent,
)


def merge_lists(
    pieces: list[Counter[Any]], length: int, max_values: int = 10_000
) -> FrequentValues:
    merged = FrequentValues()
    for piece in pieces:
        merged = merged.merge(FrequentValues.of_piece(piece, length), max_values)
    return merged


def first_exact(counts: Counter[str], k: int) -> list[str]:
    return sorted(counts, key=lambda value: (-counts[value], value))[:k]


def test_worked_example_of_three_windows() -> None:
    """Lists of two values; the true number of x is 10."""
    windows = [Counter(x=6, y=1), Counter(p=4, q=3, x=2), Counter(p=4, q=3, x=2)]
    merged = merge_lists(windows, 2)
    assert merged.unlisted == 7
    assert merged.bounds["x"] == Bounds(6, 12)
    assert merged.bounds["p"] == Bounds(8, 9)
    assert merged.bounds["q"] == Bounds(6, 7)
    first = {row.value: row.certain for row in merged.first(1)}
    assert first == {"p": False, "x": False}


PIECES = st.lists(
    st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 9)).map(Counter), max_size=6
)


@given(PIECES, st.integers(1, 5), st.integers(1, 4), st.sampled_from([2, 4, 1_000]))
def test_bounds_hold_and_no_value_is_missed(
    pieces: list[Counter[str]], length: int, k: int, max_values: int
) -> None:
    merged = merge_lists(pieces, length, max_values)
    total: Counter[str] = sum(pieces, Counter())
    for value in "abcdefgh":
        bounds = merged.bounds.get(value, Bounds(0, merged.unlisted))
        assert bounds.at_least <= total[value] <= bounds.at_most
    exact = first_exact(total, k)
    first = merged.first(k)
    assert {row.value for row in first if row.certain} <= set(exact)
    for value in exact:
        assert value in {row.value for row in first} or total[value] <= merged.unlisted


@given(PIECES, st.integers(1, 4))
def test_whole_lists_give_the_exact_answer(pieces: list[Counter[str]], k: int) -> None:
    total: Counter[str] = sum(pieces, Counter())
    first = merge_lists(pieces, 100).first(k)
    assert {row.value for row in first} == set(first_exact(total, k))
    assert all(row.certain for row in first)
    assert all(row.bounds == Bounds(total[row.value], total[row.value]) for row in first)


def test_few_values_of_each_list_find_the_most_frequent_ones() -> None:
    """Windows of 20 rows, sources in bursts, most rows of few sources. Less skewed ones are missed more often."""
    rng = random.Random(1)
    weights = [1 / rank**1.2 for rank in range(1, 1_648)]
    rows: list[int] = []
    for source in rng.choices(range(len(weights)), weights, k=4_000):
        rows += [source] * (1 + int(rng.expovariate(1 / 5)))
    exact = Counter(rows)
    windows = [Counter(rows[start : start + 20]) for start in range(0, len(rows), 20)]
    for k in (3, 5, 7, 10):
        merged = merge_lists(windows, k)
        true_hitters = {value for value, count in exact.items() if count > merged.unlisted}
        found = {value for value, b in merged.bounds.items() if b.at_least > merged.unlisted}
        assert found <= true_hitters
        assert len(found) >= 0.8 * len(true_hitters)
        if k >= 7:
            errors = [1 - merged.bounds[value].at_least / exact[value] for value in found]
            assert sum(errors) / len(errors) < 0.02


def partial(counts: dict[str | None, int]) -> pa.Table:
    return pa.table(
        {
            "_eid": pa.array(["e"] * len(counts), pa.string()),
            "_g0": pa.array(list(counts), pa.string()),
            "_a0_0": pa.array(list(counts.values()), pa.int64()),
        }
    )


def test_tables_of_pieces_are_added_up_in_any_number_of_steps() -> None:
    first, second = partial({"a": 2, None: 5}), partial({"a": 4, "b": 1})
    merged = merge_frequent(merge_frequent(None, first), merge_frequent(second, None))
    assert merged is not None
    assert frequent_values(merged, 2).to_pylist() == [
        {"_eid": "e", "_g0": "a", "_v0": 6, "_v1": 6, "_v2": True},
        {"_eid": "e", "_g0": None, "_v0": 5, "_v1": 5, "_v2": True},
    ]
    assert merge_frequent(None, None) is None
    assert merge_frequent(merged, partial({})) is not None
