"""What rules need of archived rows: written as SQL, decided by a scan of files, never too little."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from unittest.mock import Mock

import duckdb
import pyarrow as pa
import pytest

from archiver.delta.schema import StreamSchema
from archiver.delta.table import StreamTable
from archiver.read.reader import Reader
from archiver.time_range import TimeRange
from archiver.times import micros_column
from moirae.evaluation.necessary_rows import NecessaryRows, find_necessary_rows
from moirae.evaluation.necessary_scan import NecessaryScan
from moirae.evaluation.rule_groups import RuleGrouper
from tests.unit.moirae.evaluation.builders import (
    COLUMNS,
    START_MICROS,
    make_filter,
    make_rows,
    make_rule,
)

FILTER = "SELECT host, v, ts FROM s WHERE {}"
WINDOW = (
    "SELECT host, window.end AS ts, count(*) AS n FROM s {} GROUP BY host, window(ts, '1 minute')"
)
NAN = float("nan")


def find(*groups: Sequence[str]) -> NecessaryRows | None:
    rules = [[make_rule("A", expr) for expr in group] for group in groups]
    return find_necessary_rows(rules, "in_s", COLUMNS)


def selected(needed: NecessaryRows | None) -> list[float | None]:
    """Which of some values a condition selects."""
    assert needed is not None
    connection = duckdb.connect()
    connection.register("in_s", make_rows(-2.0, 0.0, 1.5, 4.0, None))
    return [v for (v,) in connection.sql(f"SELECT v FROM in_s WHERE {needed.condition}").fetchall()]


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        (["v > 1"], [1.5, 4.0]),
        (["v > 1 AND host = 'a'"], [1.5, 4.0]),
        (["v > 3", "v > 1", "v > 2"], [1.5, 4.0]),
        (["3 < v", "-1 < v"], [0.0, 1.5, 4.0]),
        (["v <= -2", "v <= 0"], [-2.0, 0.0]),
        (["v = 4", "v = 0"], [0.0, 4.0]),
        (["v > 1 AND host = 'b'", "v > 3 AND host = 'a'"], [1.5, 4.0]),
        (["v > 1 OR v IS NULL"], [1.5, 4.0, None]),
    ],
)
def test_rows_of_the_weakest_constants_are_needed(
    conditions: list[str], expected: list[float | None]
) -> None:
    needed = find([FILTER.format(condition) for condition in conditions])
    assert selected(needed) == expected


def test_many_comparisons_are_one() -> None:
    needed = find([FILTER.format(f"v > {number}") for number in range(100)])
    assert needed is not None and needed.condition.count(">") == 1


def test_rules_of_several_shapes_need_the_rows_of_each() -> None:
    assert selected(find([FILTER.format("v > 3")], [WINDOW.format("WHERE v < -1")])) == [-2.0, 4.0]


def test_columns_are_those_that_rules_name() -> None:
    needed = find(["SELECT host, ts FROM s x WHERE x.host LIKE 'a%'"])
    assert needed is not None and needed.columns == ("ts", "host")
    needed = find(["SELECT * FROM s WHERE v > 1"])
    assert needed is not None and needed.columns == tuple(COLUMNS)


@pytest.mark.parametrize("expr", ["SELECT host, v, ts FROM s", WINDOW.format("")])
def test_all_rows_are_needed_without_a_condition(expr: str) -> None:
    assert find([expr]) is None
    assert find([FILTER.format("v > 1")], [expr]) is None


def test_rows_of_a_derived_stream_are_needed_by_its_own_condition() -> None:
    inner = "SELECT host, ts, v AS w FROM s WHERE v > 2"
    needed = find([f"SELECT host, ts, w FROM ({inner}) d WHERE w > 100"])
    assert selected(needed) == [4.0]


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    """Two files of four rows, a second apart; the last row of each is late."""
    schema = StreamSchema(
        "s",
        COLUMNS,
        "ts",
        None,
        ("host",),
        timedelta(0),
        timedelta(0),
    )
    table = StreamTable(tmp_path, schema)
    for number, values in enumerate(((1.0, NAN, 3.0, 9.0), (1.0, 2.0, None, 9.0))):
        rows = make_rows(*values)
        columns = {name: rows[name] for name in rows.column_names}
        columns["_late"] = pa.array([False, False, False, True])
        columns["chunk"] = pa.array([0] * 4, pa.int32())
        for field in schema.arrow_schema():
            if field.name not in columns:
                columns[field.name] = pa.nulls(4, field.type)
        table.append(pa.table(columns).select(schema.arrow_schema().names), number)
    return Reader(tmp_path, [schema])


def scan(
    reader: Reader,
    *thresholds: float,
    time_range: TimeRange = TimeRange(),
    max_event_rows: int = 100,
) -> pa.Table | None:
    groups = RuleGrouper({"s": COLUMNS}).group([make_filter("A", value) for value in thresholds])
    return NecessaryScan(reader, Mock(cores=1)).read(groups, "s", time_range, max_event_rows)


def test_scan_reads_rows_in_time_and_not_a_number_is_large(reader: Reader) -> None:
    """Statistics of files do not count NaN, which is larger than all numbers in rules."""
    rows = scan(reader, 1.5)
    assert rows is not None
    assert sorted(map(str, rows["v"].to_pylist())) == ["2.0", "3.0", "nan"]
    rows = scan(reader, 100, 200)
    assert rows is not None and list(map(str, rows["v"].to_pylist())) == ["nan"]


def test_scan_reads_rows_of_a_range(reader: Reader) -> None:
    time_range = TimeRange(START_MICROS + 1_000_000, START_MICROS + 2_000_000)
    rows = scan(reader, 0, time_range=time_range)
    assert rows is not None
    assert set(micros_column(rows, "ts").tolist()) == {START_MICROS + 1_000_000}


def test_scan_leaves_many_rows_to_tasks(reader: Reader) -> None:
    assert scan(reader, 2.5, max_event_rows=2) is not None
    assert scan(reader, 0, max_event_rows=2) is None
    assert scan(reader, 2.5, 2.6, max_event_rows=2) is None
