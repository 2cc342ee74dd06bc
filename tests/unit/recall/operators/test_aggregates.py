"""Tables of partial answers: merging and final values."""

import pyarrow as pa

from recall.operators.aggregates import aggregate_values, merge_tables
from recall.query.shape import Tables
from recall.query.split import split_query

TABLES = Tables({"cpu": "ts"})
GROUPED = split_query("SELECT host AS h, avg(cpu) AS a FROM cpu GROUP BY host", TABLES)
GLOBAL = split_query("SELECT count(*) AS n, max(cpu) AS m FROM cpu", TABLES)
SKETCHED = split_query("SELECT approx_count_distinct(host) AS n FROM cpu", TABLES)


def grouped_answer(**sums_and_counts: tuple[float, int]) -> pa.Table:
    rows = []
    for host, (total, count) in sums_and_counts.items():
        rows.append({"_eid": "e", "_g0": host, "_a0_0": total, "_a0_1": count})
    return pa.Table.from_pylist(rows)


def test_groups_of_two_pieces_are_merged() -> None:
    merged = merge_tables(
        GROUPED, grouped_answer(a=(1.0, 1), b=(4.0, 2)), grouped_answer(a=(5.0, 2))
    )
    values = aggregate_values(GROUPED, merged, "e", {})
    assert values is not None
    assert values.to_pylist() == [
        {"_eid": "e", "_g0": "a", "_v0": 2.0},
        {"_eid": "e", "_g0": "b", "_v0": 2.0},
    ]


def test_piece_without_rows_changes_nothing() -> None:
    answer = grouped_answer(a=(1.0, 1))
    assert merge_tables(GROUPED, answer, None) is answer
    assert merge_tables(GROUPED, None, answer) is answer
    assert merge_tables(GROUPED, None, None) is None


def test_aggregates_over_no_rows_have_values() -> None:
    values = aggregate_values(GLOBAL, None, "e", {"_v1": "double"})
    assert values is not None
    assert values.to_pylist() == [{"_eid": "e", "_v0": 0, "_v1": None}]
    assert values.schema.field("_v1").type == pa.float64()
    assert aggregate_values(GROUPED, None, "e", {}) is None


def test_sketches_are_collected() -> None:
    first = pa.table({"_eid": ["e"], "_a0_0": [b"x"]})
    second = pa.table({"_eid": ["e"], "_a0_0": [b"y"]})
    merged = merge_tables(SKETCHED, merge_tables(SKETCHED, first, second), second)
    assert merged is not None
    assert merged["_a0_0"].to_pylist() == [[b"x", b"y", b"y"]]
