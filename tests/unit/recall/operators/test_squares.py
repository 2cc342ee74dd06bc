"""Sums over turns that are stored with partial answers."""

import pyarrow as pa

from recall.operators.estimate import Sample
from recall.operators.squares import read_sample, square_columns, with_sample, with_squares
from recall.query.shape import Tables
from recall.query.split import split_query

SPLIT = split_query("SELECT sum(x) AS s, avg(y) AS a, max(x) AS m FROM cpu", Tables({"cpu": "ts"}))


def test_squares_of_a_turn_are_added() -> None:
    partial = pa.table({"_eid": ["e"], "_a0_0": [3], "_a1_0": [6.0], "_a1_1": [2], "_a2_0": [3]})
    row = with_squares(SPLIT, partial, turn_seconds=10.0).to_pylist()[0]
    assert square_columns(SPLIT) == ["_q0", "_q1"]
    assert (row["_q0"], row["_q1"]) == (0.9, 18.0)


def test_average_over_no_rows_has_no_square() -> None:
    partial = pa.table({"_eid": ["e"], "_a0_0": [3], "_a1_0": [None], "_a1_1": [0], "_a2_0": [3]})
    partial = partial.set_column(2, "_a1_0", pa.array([None], pa.float64()))
    assert with_squares(SPLIT, partial, turn_seconds=10.0)["_q1"].to_pylist() == [0.0]


def test_sample_is_stored_in_the_metadata() -> None:
    table = with_sample(pa.table({"_eid": ["e"]}), Sample(2, 30.0))
    assert read_sample(table) == Sample(2, 30.0)
    assert read_sample(pa.table({})) == Sample()
    assert read_sample(None) == Sample()
