"""Active rules over one stream, and rows of it."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import Mock

import pyarrow as pa

from archiver.delta.schema import ARROW_TYPES
from archiver.times import to_micros
from moirae.evaluation.engine import (
    EvaluationRequest,
    Events,
    RowSource,
    RuleEngine,
    RuleEventRows,
)
from moirae.evaluation.loss_rates import LossLimits
from moirae.evaluation.losses import VerdictLosses
from moirae.evaluation.plan import ActiveRule, RuleSlice
from moirae.evaluation.rule_groups import RuleGroup
from moirae.rules.definition import Definition
from moirae.rules.model import AlertSpec
from moirae.rules.rule_set import Rule
from recall.query.shape import Tables, infer_shape
from recall.statements import FileRows

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


def make_source(rows: pa.Table | FileRows) -> RowSource:
    """Rows whose data frame is a stand-in."""
    count = len(rows) if isinstance(rows, pa.Table) else rows.row_count
    return RowSource(count, lambda: rows, Mock())


def make_request(
    rows: pa.Table | FileRows, rule_slice: RuleSlice | None = None
) -> EvaluationRequest:
    """A request over rows of the stream `s`."""
    return EvaluationRequest({"s": make_source(rows)}, rule_slice)


def make_losses(limits: LossLimits = LossLimits(0.01, 20)) -> VerdictLosses:
    """Losses that are stored nowhere."""
    return VerdictLosses(Mock(), limits)


def run_engine(
    engine: RuleEngine, groups: Sequence[RuleGroup], request: EvaluationRequest
) -> list[Any]:
    """The outcomes of the groups that an engine takes."""
    return list(engine.run(engine.select(groups, request), request))


def event_rows_of(outcomes: Iterable[Any]) -> RuleEventRows:
    """The event rows of outcomes, all of which are events."""
    event_rows: RuleEventRows = []
    for outcome in outcomes:
        assert isinstance(outcome, Events), outcome
        event_rows += outcome.event_rows
    return event_rows


def evaluated_rules(outcomes: Iterable[Any]) -> list[ActiveRule]:
    """The rules that an engine has evaluated."""
    return [
        rule
        for outcome in outcomes
        if isinstance(outcome, Events)
        for group in outcome.groups
        for rule in group.rules
    ]
