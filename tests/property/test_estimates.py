"""Estimates of what was not read yet: how often their intervals hold the truth, and that the end is
exact.
"""

import math
import random

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
    piece_seconds,
)
from recall.operators.moments import read_sample
from recall.operators.row_estimates import estimate_rows
from recall.query.shape import Tables
from recall.query.split import split_query

TABLES = Tables({"s": "ts"})
PARTS = split_query(
    "SELECT h AS h, sum(v) AS total, count(*) AS n, avg(v) AS mean, max(v) AS top FROM s GROUP "
    "BY h",
    TABLES,
)


def history(rng: random.Random, pieces: int) -> list[tuple[float, list[float]]]:
    """Pieces of unequal length with numbers of rows and values that vary from piece to piece."""
    found = []
    for _ in range(pieces):
        length = rng.uniform(50, 150)
        level = rng.gauss(10, 2)
        count = max(1, round(length * rng.uniform(0.1, 0.3)))
        found.append((length, [rng.gauss(level, 3) for _ in range(count)]))
    return found


def moments(y: list[float], x: list[float]) -> Moments:
    both = sum(a * b for a, b in zip(x, y, strict=True))
    return Moments(sum(y), sum(x), sum(a * a for a in y), both, sum(a * a for a in x))


def estimated(
    read: list[tuple[float, list[float]]], asked: float
) -> list[tuple[float, float, float]]:
    """Estimates of the sum, the count and the mean from some pieces."""
    sample = Sample()
    sums, counts = [sum(values) for _, values in read], [float(len(values)) for _, values in read]
    for length, _ in read:
        sample = sample.add_piece(length)
    by_time = [(parts, [t for t, _ in read]) for parts in (sums, counts)]
    found = [estimate_total(moments(y, x), sample, asked) for y, x in by_time]
    found.append(estimate_average(moments(sums, counts), sample, asked))
    return [(one.value, one.low, one.high) for one in found]


@pytest.mark.parametrize("read", [5, 12, 40])
def test_intervals_hold_the_truth_as_often_as_they_say(read: int) -> None:
    """Of 95 % intervals over histories without a trend at least 92 % hold it, and they are not just
    wide.
    """
    rng = random.Random(read)
    hits, tries = [0, 0, 0], 600
    for _ in range(tries):
        pieces = history(rng, 60)
        asked = sum(length for length, _ in pieces)
        values = [value for _, part in pieces for value in part]
        truths = (sum(values), float(len(values)), sum(values) / len(values))
        for place, (_, low, high) in enumerate(estimated(pieces[:read], asked)):
            hits[place] += low <= truths[place] <= high
            assert high - low < 4 * truths[place]
    assert all(hit / tries >= CONFIDENCE - 0.03 for hit in hits), hits


def partial(groups: dict[str, list[float]]) -> pa.Table:
    rows = [
        {
            "_eid": "e",
            "_g0": h,
            "_a0_0": sum(v),
            "_a1_0": len(v),
            "_a2_0": sum(v),
            "_a2_1": len(v),
            "_a3_0": max(v),
        }
        for h, v in groups.items()
    ]
    kinds = {"_eid": pa.string(), "_g0": pa.string(), "_a1_0": pa.int64(), "_a2_1": pa.int64()}
    return pa.Table.from_pylist(
        rows, pa.schema([(name, kinds.get(name, pa.float64())) for name in rows[0]])
    )


VALUES = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=4)
PIECE = st.tuples(st.floats(1, 100), st.dictionaries(st.sampled_from("ab"), VALUES, max_size=2))


@given(st.lists(PIECE, min_size=1, max_size=6))
def test_the_end_is_exact(pieces: list[tuple[float, dict[str, list[float]]]]) -> None:
    """When all is read an estimate is the value, and before that each lies within its own interval."""
    asked = sum(length for length, _ in pieces)
    held: pa.Table | None = None
    for number, (length, groups) in enumerate(pieces):
        held = merge_tables(PARTS, held, partial(groups) if groups else None, length)
        assert read_sample(held).pieces == number + 1
        final = number == len(pieces) - 1
        seen = [groups for _, groups in pieces[: number + 1]]
        answer = [
            {
                "h": h,
                "total": sum(all_),
                "n": len(all_),
                "mean": sum(all_) / len(all_),
                "top": max(all_),
            }
            for h in "ab"
            if (all_ := [v for one in seen for v in one.get(h, [])])
        ]
        for row, told in zip(answer, estimate_rows(PARTS, held, answer, asked, final), strict=True):
            assert set(told) == {"total", "n", "mean", "top"}
            for name, one in told.items():
                if final:
                    assert one == {"value": row[name], "low": row[name], "high": row[name]}
                elif (
                    one["value"] is not None and one["low"] is not None and one["high"] is not None
                ):
                    slack = 1e-9 * abs(one["value"])  # rounding of sums
                    assert one["low"] - slack <= one["value"] <= one["high"] + slack
            if not final and number:
                assert math.isclose(
                    told["n"]["value"], row["n"] * asked / read_sample(held).seconds
                )
                assert told["n"]["low"] >= row["n"]
                assert (told["top"]["low"], told["top"]["high"]) == (row["top"], None)


def test_a_piece_without_a_beginning_counts_as_the_others() -> None:
    assert piece_seconds(
        [(3, 4_000_000, 8_000_000), (2, 2_000_000, 4_000_000), (1, None, 2_000_000)]
    ) == [
        4.0,
        2.0,
        3.0,
    ]
    assert piece_seconds([(1, None, 2_000_000)]) == [1.0]
