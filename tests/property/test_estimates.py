"""Estimates from part of history: how often intervals hold the truth; the last is exact."""

import math
import random
from collections.abc import Sequence
from typing import Any

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
from recall.operators.moments import read_sample
from recall.operators.row_estimates import estimate_rows
from recall.query.shape import Tables
from recall.query.split import split_query

TABLES = Tables({"s": "ts"})
SPLIT = split_query(
    "SELECT h AS h, sum(v) AS total, count(*) AS n, avg(v) AS mean, max(v) AS top "
    "FROM s GROUP BY h",
    TABLES,
)

# The length of a piece in seconds, and its values.
SampledPiece = tuple[float, list[float]]


def generate_history(rng: random.Random, pieces: int) -> list[SampledPiece]:
    """Pieces of unequal lengths whose numbers of rows and values vary from piece to piece."""
    history = []
    for _ in range(pieces):
        length = rng.uniform(50, 150)
        level = rng.gauss(10, 2)
        count = max(1, round(length * rng.uniform(0.1, 0.3)))
        history.append((length, [rng.gauss(level, 3) for _ in range(count)]))
    return history


def compute_moments(y: list[float], x: list[float]) -> Moments:
    products = sum(a * b for a, b in zip(x, y, strict=True))
    return Moments(sum(y), sum(x), sum(a * a for a in y), products, sum(a * a for a in x))


def estimate_values(
    read_pieces: list[SampledPiece], requested_seconds: float
) -> list[tuple[float, float, float]]:
    """(value, low, high) of the sum, the count and the mean."""
    sample = Sample()
    for length, _ in read_pieces:
        sample = sample.add_piece(length)
    lengths = [length for length, _ in read_pieces]
    sums = [sum(values) for _, values in read_pieces]
    counts = [float(len(values)) for _, values in read_pieces]
    estimates = [
        estimate_total(compute_moments(sums, lengths), sample, requested_seconds),
        estimate_total(compute_moments(counts, lengths), sample, requested_seconds),
        estimate_average(compute_moments(sums, counts), sample, requested_seconds),
    ]
    return [(estimate.value, estimate.low, estimate.high) for estimate in estimates]


@pytest.mark.parametrize("pieces_read", [5, 12, 40])
def test_intervals_hold_the_truth_as_often_as_stated(pieces_read: int) -> None:
    """At least 92 % of the 95 % intervals do, over history without a trend, and they are narrow."""
    rng = random.Random(pieces_read)
    hits = [0, 0, 0]
    trials = 600
    for _ in range(trials):
        history = generate_history(rng, 60)
        requested_seconds = sum(length for length, _ in history)
        values = [value for _, piece_values in history for value in piece_values]
        truths = (sum(values), float(len(values)), sum(values) / len(values))
        estimates = estimate_values(history[:pieces_read], requested_seconds)
        for number, (_, low, high) in enumerate(estimates):
            hits[number] += low <= truths[number] <= high
            assert high - low < 4 * truths[number]
    assert all(hit / trials >= CONFIDENCE - 0.03 for hit in hits), hits


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
        assert sample.pieces == number + 1
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
