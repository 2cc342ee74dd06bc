"""Estimates from part of history: how often intervals hold the truth; the last is exact."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall.operators.aggregates import merge_tables
from recall.operators.estimate import (
    CONFIDENCE,
    Moments,
    Sample,
    estimate_average,
    estimate_total,
)
from recall.operators.row_estimates import estimate_rows
from recall.operators.squares import read_sample
from recall.query.shape import Tables
from recall.query.split import split_query

TABLES = Tables({"s": "ts"})
SPLIT = split_query(
    "SELECT h AS h, sum(v) AS total, count(*) AS n, avg(v) AS mean, max(v) AS top "
    "FROM s GROUP BY h",
    TABLES,
)


def share_of_intervals_that_hold(pieces_by_turn: Sequence[int], trials: int) -> list[float]:
    """Of sum, count and average over histories of 300 pieces without a trend.

    The numbers of rows and the values of pieces vary from piece to piece, and with their lengths.
    """
    rng = np.random.default_rng(len(pieces_by_turn))
    ends = np.cumsum([0, *pieces_by_turn])
    hits = [0, 0, 0]
    for _ in range(trials):
        lengths = rng.uniform(50, 150, 300)
        counts = np.maximum(1, np.round(lengths * rng.uniform(0.1, 0.3, 300)))
        sums = counts * rng.normal(10, 2, 300) + np.sqrt(counts) * rng.normal(0, 3, 300)
        turns = [
            [float(values[start:end].sum()) for start, end in pairwise(ends)]
            for values in (lengths, counts, sums)
        ]
        sample = Sample(len(pieces_by_turn), sum(turns[0]))
        requested = float(lengths.sum())
        estimates = [
            estimate_total(compute_moments(turns[2], turns[0]), sample, requested),
            estimate_total(compute_moments(turns[1], turns[0]), sample, requested),
            estimate_average(compute_moments(turns[2], turns[1]), sample, requested),
        ]
        truths = (sums.sum(), counts.sum(), sums.sum() / counts.sum())
        for number, estimate in enumerate(estimates):
            hits[number] += estimate.low <= truths[number] <= estimate.high
    return [hit / trials for hit in hits]


def compute_moments(y: list[float], x: list[float]) -> Moments:
    return Moments(sum(y), sum(x), sum(a * a / b for a, b in zip(y, x, strict=True)))


@pytest.mark.parametrize("pieces_by_turn", [[1, 6, 42], [1, 6, 42, 42], [2, 4, 8, 16, 32, 64]])
def test_intervals_hold_the_truth_as_often_as_stated(pieces_by_turn: list[int]) -> None:
    """93 to 97 % of the 95 % intervals do, also where turns read more and more pieces."""
    shares = share_of_intervals_that_hold(pieces_by_turn, 3000)
    assert all(abs(share - CONFIDENCE) <= 0.02 for share in shares), shares


@pytest.mark.parametrize("turns", [5, 40])
def test_intervals_of_short_turns_hold_the_truth_nearly_as_often(turns: int) -> None:
    """A few short pieces vary less than proportionally with their lengths."""
    shares = share_of_intervals_that_hold([1] * turns, 1000)
    assert all(abs(share - CONFIDENCE) <= 0.04 for share in shares), shares


def partial_answer(groups: dict[str, list[float]]) -> pa.Table:
    rows = []
    for key, values in groups.items():
        rows.append(
            {
                "_eid": "e",
                "_g0": key,
                "_a0_0": sum(values),
                "_a1_0": len(values),
                "_a2_0": sum(values),
                "_a2_1": len(values),
                "_a3_0": max(values),
            }
        )
    types = {"_eid": pa.string(), "_g0": pa.string(), "_a1_0": pa.int64(), "_a2_1": pa.int64()}
    schema = pa.schema([(name, types.get(name, pa.float64())) for name in rows[0]])
    return pa.Table.from_pylist(rows, schema)


def answer_rows(read_groups: Sequence[dict[str, list[float]]]) -> list[dict[str, Any]]:
    """What the query says of all rows that were read."""
    rows = []
    for key in "ab":
        values = [value for groups in read_groups for value in groups.get(key, [])]
        if values:
            total = sum(values)
            count = len(values)
            rows.append(
                {"h": key, "total": total, "n": count, "mean": total / count, "top": max(values)}
            )
    return rows


def assert_inside_interval(estimate: dict[str, Any]) -> None:
    value, low, high = estimate["value"], estimate["low"], estimate["high"]
    if value is not None and low is not None and high is not None:
        tolerance = 1e-9 * abs(value)  # of floating point sums
        assert low - tolerance <= value <= high + tolerance


VALUES = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=4)
PIECE = st.tuples(st.floats(1, 100), st.dictionaries(st.sampled_from("ab"), VALUES, max_size=2))


@given(st.lists(PIECE, min_size=1, max_size=6))
def test_last_estimate_is_exact(pieces: list[tuple[float, dict[str, list[float]]]]) -> None:
    """Before the last piece, each estimate lies within its own interval."""
    requested_seconds = sum(length for length, _ in pieces)
    accumulator: pa.Table | None = None
    for number, (length, groups) in enumerate(pieces):
        partial = partial_answer(groups) if groups else None
        accumulator = merge_tables(SPLIT, accumulator, partial, length)
        sample = read_sample(accumulator)
        assert sample.turns == number + 1
        final = number == len(pieces) - 1
        answer = answer_rows([read_groups for _, read_groups in pieces[: number + 1]])
        rows = estimate_rows(SPLIT, accumulator, answer, requested_seconds, final)
        for row, estimates in zip(answer, rows, strict=True):
            assert set(estimates) == {"total", "n", "mean", "top"}
            for name, estimate in estimates.items():
                if final:
                    assert estimate == {"value": row[name], "low": row[name], "high": row[name]}
                else:
                    assert_inside_interval(estimate)
            assert estimates["mean"]["value"] == row["mean"]
            if not final and number:
                expected_count = row["n"] * requested_seconds / sample.seconds
                assert math.isclose(estimates["n"]["value"], expected_count)
                assert estimates["n"]["low"] >= row["n"]
                assert (estimates["top"]["low"], estimates["top"]["high"]) == (row["top"], None)
