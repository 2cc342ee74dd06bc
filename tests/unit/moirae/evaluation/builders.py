"""Active rules over one stream, and rows of it."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from archiver.delta.schema import ARROW_TYPES
from archiver.times import to_micros
from moirae.evaluation.plan import ActiveRule
from moirae.rules.definition import Definition
from moirae.rules.model import AlertSpec
from moirae.rules.rule_set import Rule
from recall.query.shape import Tables, infer_shape

START = datetime(2026, 1, 1, tzinfo=UTC)
START_MICROS = to_micros(START)
COLUMNS = {"ts": "timestamp", "host": "string", "v": "double"}
OUTPUT_TYPES = {"host": "string", "v": "double"}


def make_rule(name: str, expr: str, types: Mapping[str, str] = OUTPUT_TYPES) -> ActiveRule:
    """A rule of group `g` over the stream `s`."""
    tables = Tables({"s": "ts"})
    rule = Rule("g", AlertSpec(alert=name, expr=expr))
    return ActiveRule(Definition(rule, types, (), ()), tables, infer_shape(expr, tables))


def make_filter(name: str, threshold: float) -> ActiveRule:
    return make_rule(name, f"SELECT host, v, ts FROM s WHERE v > {threshold}")


def make_rows(*values: float | None) -> pa.Table:
    """Rows of host `a`, one per second."""
    columns = {
        "ts": [START + timedelta(seconds=number) for number in range(len(values))],
        "host": ["a"] * len(values),
        "v": list(values),
    }
    return pa.table(
        {name: pa.array(column, ARROW_TYPES[COLUMNS[name]]) for name, column in columns.items()}
    )
