"""Plain rules over rows in memory, by DuckDB."""

import math
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa

from archiver.delta.schema import ARROW_TYPES
from moirae.evaluation.batches import RuleBatch, RuleBatcher
from moirae.evaluation.local import LocalEvaluator
from moirae.evaluation.plan import ActiveRule
from moirae.rules.definition import Definition
from moirae.rules.model import AlertSpec
from moirae.rules.rule_set import Rule
from recall.query.shape import Tables, infer_shape
from tests.unit.moirae.evaluation.builders import (
    COLUMNS,
    START,
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


def _batch_join() -> Sequence[RuleBatch]:
    """A rule that joins rows with the relation `hosts`."""
    expr = "SELECT s.ts, h.site FROM s JOIN hosts h ON s.host = h.host"
    tables = Tables({"s": "ts"}, frozenset({"hosts"}))
    definition = Definition(Rule("g", AlertSpec(alert="A", expr=expr)), {"site": "string"}, (), ())
    rule = ActiveRule(definition, tables, infer_shape(expr, tables))
    columns = {"host": "string", "site": "string"}
    return RuleBatcher({"s": COLUMNS}, {"hosts": columns}).batch([rule]).batches


def test_join_that_exceeds_its_time_limit_is_left_out_until_reset() -> None:
    local = LocalEvaluator(join_time_limit=0.01)
    rows = make_rows(*[1.0] * 3_000)
    versions = rows.select(["host"]).append_column("site", rows["host"])
    for column in ("_valid_from", "_valid_to"):
        time = START + timedelta(days=0 if column == "_valid_from" else 1)
        times = pa.array([time] * len(rows), ARROW_TYPES["timestamp"])
        versions = versions.append_column(column, times)
    local.set_relation("hosts", versions)
    assert local.evaluate(_batch_join(), {"s": rows}) == []
    local.set_relation("hosts", versions.slice(0, 1))
    assert local.evaluate(_batch_join(), {"s": rows.slice(0, 1)}) == []
    local.reset()
    ((_, event_rows),) = local.evaluate(_batch_join(), {"s": rows.slice(0, 1)})
    assert len(event_rows) == 1


def test_row_is_joined_with_the_version_of_a_relation_at_its_time() -> None:
    batches = _batch_join()
    local = LocalEvaluator()

    def sites(*sites: str) -> list[Any]:
        """The joined sites if the host moves to each of some sites, second by second."""
        times = [START + timedelta(seconds=number) for number in range(len(sites) + 1)]
        versions = {
            "host": ["a"] * len(sites),
            "site": list(sites),
            "_valid_from": pa.array(times[:-1], ARROW_TYPES["timestamp"]),
            "_valid_to": pa.array(times[1:], ARROW_TYPES["timestamp"]),
        }
        local.set_relation("hosts", pa.table(versions))
        ((_, event_rows),) = local.evaluate(batches, {"s": make_rows(1.0, 2.0, 3.0)})
        return sorted((row.ts - START_MICROS, row.attributes["site"]) for _, row in event_rows)

    assert sites("x", "y") == [(0, "x"), (SECOND, "y")]
    assert sites("x", "z", "y") == [(0, "x"), (SECOND, "z"), (2 * SECOND, "y")]


def test_batch_that_fails_is_left_out() -> None:
    batches = RuleBatcher({"s": COLUMNS}).batch([make_filter("A", 1.5)]).batches
    without_column = make_rows(1.0).drop_columns(["host"])
    assert LocalEvaluator().evaluate(batches, {"s": without_column}) == []
