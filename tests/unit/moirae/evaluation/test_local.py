"""Plain rules over rows in memory, by DuckDB."""

import math

from moirae.evaluation.batches import RuleBatcher
from moirae.evaluation.local import LocalEvaluator
from tests.unit.moirae.evaluation.builders import (
    COLUMNS,
    START_MICROS,
    make_filter,
    make_rows,
    make_rule,
)

SECOND = 1_000_000  # microseconds


def test_each_rule_of_a_batch_gets_its_own_event_rows() -> None:
    rules = [make_filter("A", 1.5), make_filter("B", 2.5)]
    batches = RuleBatcher({"s": COLUMNS}).batch(rules).batches
    ((_, event_rows),) = LocalEvaluator().evaluate(batches, {"s": make_rows(1.0, 2.0, 3.0)})
    found = sorted((index, row.ts, row.attributes["v"]) for index, row in event_rows)
    assert found == [
        (0, START_MICROS + SECOND, 2.0),
        (0, START_MICROS + 2 * SECOND, 3.0),
        (1, START_MICROS + 2 * SECOND, 3.0),
    ]


def test_attributes_have_the_values_that_spark_writes_to_json() -> None:
    types = {"v": "double", "at": "timestamp"}
    rule = make_rule("A", "SELECT v, ts AS at, ts FROM s", types)
    batches = RuleBatcher({"s": COLUMNS}).batch([rule]).batches
    rows = make_rows(math.nan, math.inf, -math.inf, None)
    ((_, event_rows),) = LocalEvaluator().evaluate(batches, {"s": rows})
    assert [row.attributes["v"] for _, row in event_rows] == ["NaN", "Infinity", "-Infinity", None]
    assert event_rows[0][1].attributes["at"] == "2026-01-01T00:00:00.000000Z"


def test_rule_without_attributes_has_event_rows() -> None:
    rule = make_rule("A", "SELECT ts FROM s WHERE v > 1.5", {})
    batches = RuleBatcher({"s": COLUMNS}).batch([rule]).batches
    ((_, event_rows),) = LocalEvaluator().evaluate(batches, {"s": make_rows(1.0, 2.0, 3.0)})
    assert [dict(row.attributes) for _, row in event_rows] == [{}, {}]


def test_batch_that_fails_is_left_out() -> None:
    batches = RuleBatcher({"s": COLUMNS}).batch([make_filter("A", 1.5)]).batches
    without_column = make_rows(1.0).drop_columns(["host"])
    assert LocalEvaluator().evaluate(batches, {"s": without_column}) == []
