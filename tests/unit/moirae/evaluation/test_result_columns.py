"""Results of plain queries as columns of events."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from archiver.delta.schema import ARROW_TYPES
from archiver.time_range import TimeRange
from moirae.alerts.event import Event, deduplicate
from moirae.evaluation.duckdb_rules import DuckDBRules
from moirae.evaluation.plan import ActiveRule
from moirae.evaluation.result_columns import divide_result
from moirae.evaluation.rule_groups import RuleGrouper
from moirae.rules.definition import Definition
from moirae.rules.model import AlertSpec
from moirae.rules.rule_set import Rule
from recall.errors import SparkRequired
from recall.query.shape import Tables, infer_shape
from tests.unit.moirae.evaluation.builders import (
    START,
    START_MICROS,
    event_rows_of,
    make_request,
    run_engine,
)

SECOND = 1_000_000  # microseconds
COLUMNS = {
    "ts": "timestamp",
    "host": "string",
    "n": "bigint",
    "v": "double",
    "at": "timestamp",
}
TYPES = {"host": "string", "n": "bigint", "v": "double", "at": "timestamp"}
EVERYTHING = TimeRange(START_MICROS, START_MICROS + 100 * SECOND)


def make_rule(
    name: str, threshold: int, key: Sequence[str], event_id: Sequence[str] = ()
) -> ActiveRule:
    expr = f"SELECT host, n, v, at, ts FROM s WHERE n > {threshold}"
    tables = Tables({"s": "ts"})
    rule = Rule("g", AlertSpec(alert=name, expr=expr))
    definition = Definition(rule, TYPES, tuple(key), tuple(event_id or key))
    return ActiveRule(definition, tables, infer_shape(expr, tables))


def make_table(*rows: tuple[int, str | None, int, float | None]) -> pa.Table:
    """Rows of second, host, n, v."""
    times = [START + timedelta(seconds=row[0]) for row in rows]
    columns: Mapping[str, Sequence[Any]] = {
        "ts": times,
        "host": [row[1] for row in rows],
        "n": [row[2] for row in rows],
        "v": [row[3] for row in rows],
        "at": times,
    }
    return pa.table(
        {name: pa.array(values, ARROW_TYPES[COLUMNS[name]]) for name, values in columns.items()}
    )


def list_both_ways(
    rules: Sequence[ActiveRule], rows: pa.Table, time_range: TimeRange = EVERYTHING
) -> tuple[dict[str, list[Event]], dict[str, list[Event]]]:
    """The events of rules by columns, and by rows."""
    (group,) = RuleGrouper({"s": COLUMNS}).group(rules)
    duckdb, request = DuckDBRules(), make_request(rows)
    by_columns: dict[str, list[Event]] = {}
    for rule, parts in divide_result(group, duckdb.run_query(group, request), time_range):
        events: list[Event] = []
        for part in parts:
            made = part.make_events(np.arange(len(part)))
            assert [event.ts for event in made] == part.times.tolist()
            assert [(event.fingerprint, event.key) for event in made] == [
                part.keys[number] for number in part.key_numbers
            ]
            events += made
        by_columns[rule.name] = sorted(events, key=lambda event: (event.ts, event.eid))
    by_rows: dict[str, list[Event]] = {}
    event_rows = event_rows_of(run_engine(duckdb, [group], request))
    for rule in rules:
        own = [row for other, row in event_rows if other is rule and time_range.contains(row.ts)]
        by_rows[rule.name] = deduplicate(rule.name, rule.definition.id, rule.definition.key, own)
    return by_columns, by_rows


def test_events_by_columns_are_those_of_rows() -> None:
    rows = make_table(
        (0, "a", 1, 0.5), (1, "b", 2, float("nan")), (2, None, 3, None), (3, "a", 4, 1.0)
    )
    rules = [make_rule("A", 0, ["host"]), make_rule("B", 2, ["host"]), make_rule("C", 9, ["host"])]
    by_columns, by_rows = list_both_ways(rules, rows)
    assert by_columns == by_rows
    assert list(map(len, by_columns.values())) == [4, 2, 0]
    assert by_columns["g/A"][1].attributes["v"] == "NaN"


def test_only_events_of_the_range_count() -> None:
    rows = make_table((0, "a", 1, 0.5), (1, "b", 2, 1.0), (2, "a", 3, 2.0))
    time_range = TimeRange(START_MICROS + SECOND, START_MICROS + 2 * SECOND)
    by_columns, by_rows = list_both_ways([make_rule("A", 0, ["host"])], rows, time_range)
    assert by_columns == by_rows
    assert [event.key for event in by_columns["g/A"]] == [{"host": "b"}]


@pytest.mark.parametrize(
    ("key", "event_id"),
    [
        (["host"], []),
        (["host"], ["host", "n"]),
        (["host"], ["n"]),
        ([], []),
        (["host", "n"], ["host"]),
        (["host", "at"], ["ts", "host"]),
    ],
)
def test_of_rows_with_one_id_and_time_the_smallest_is_the_event(
    key: list[str], event_id: list[str]
) -> None:
    rows = make_table(
        (0, "a", 2, 0.5), (0, "a", 1, 0.7), (0, "b", 1, 0.1), (1, "a", 1, 0.1), (1, "a", 1, None),
        (2, "c", 5, 0.1), (3, None, 5, 0.1), (3, None, 6, 0.1),
    )  # fmt: skip
    by_columns, by_rows = list_both_ways([make_rule("A", 0, key, event_id)], rows)
    assert by_columns == by_rows


def test_keys_of_inexact_types_and_times_beyond_python_are_left_to_rows() -> None:
    with pytest.raises(SparkRequired, match="inexact"):
        list_both_ways([make_rule("A", 0, ["v"])], make_table((0, "a", 1, 0.5)))
    rows = make_table((0, "a", 1, 0.5))
    far = pa.array([1 << 60], pa.int64()).cast(ARROW_TYPES["timestamp"])
    rows = rows.set_column(rows.column_names.index("at"), "at", far)
    with pytest.raises(SparkRequired, match="years 1 to 9999"):
        list_both_ways([make_rule("A", 0, ["host"])], rows)
