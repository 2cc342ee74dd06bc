"""Sums over pieces that are stored with partial answers."""

import pyarrow as pa

from recall.operators.estimate import Sample
from recall.operators.moments import moment_columns, read_sample, with_moments, with_sample
from recall.query.shape import Tables
from recall.query.split import split_query

SPLIT = split_query("SELECT sum(x) AS s, avg(y) AS a, max(x) AS m FROM cpu", Tables({"cpu": "ts"}))


def test_squares_and_products_of_a_piece_are_added() -> None:
    partial = pa.table({"_eid": ["e"], "_a0_0": [3], "_a1_0": [6.0], "_a1_1": [2], "_a2_0": [3]})
    row = with_moments(SPLIT, partial, piece_seconds=10.0).to_pylist()[0]
    assert moment_columns(SPLIT) == ["_m0_0", "_m0_1", "_m1_0", "_m1_1", "_m1_2"]
    assert (row["_m0_0"], row["_m0_1"]) == (9.0, 30.0)
    assert (row["_m1_0"], row["_m1_1"], row["_m1_2"]) == (36.0, 12.0, 4.0)


def test_sample_is_stored_in_the_metadata() -> None:
    table = with_sample(pa.table({"_eid": ["e"]}), Sample(2, 30.0, 500.0))
    assert read_sample(table) == Sample(2, 30.0, 500.0)
    assert read_sample(pa.table({})) == Sample()
    assert read_sample(None) == Sample()
