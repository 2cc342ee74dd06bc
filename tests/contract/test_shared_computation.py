"""Spark computes what several rules have in common once: derived streams and equal contexts.

The rows that are read of the stream are counted.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from archiver.delta.schema import ARROW_TYPES
from moirae.evaluation.contexts import ContextEvaluator
from moirae.evaluation.engine import RowSource
from moirae.evaluation.evaluator import EvaluationResult, RuleEngines, RuleEvaluator
from moirae.evaluation.plan import ActiveRule
from moirae.rules.definition import Definition
from moirae.rules.model import AlertSpec
from moirae.rules.rule_set import DerivedQuery, Rule
from recall.engines.routing.choice import EngineChoice
from recall.engines.spark.statements import SparkStatements
from recall.requests import RecallEvent
from recall.statements.statement import Statement
from tests.unit.moirae.evaluation.builders import (
    COLUMNS,
    START,
    START_MICROS,
    make_losses,
    make_rows,
)

pytestmark = pytest.mark.services

DERIVED = "SELECT host, window.end AS ts, max(v) AS v FROM s GROUP BY host, window(ts, '1 second')"
NEAR = "SELECT c.v FROM s c WHERE c.host = event.host"
HOT = "SELECT host, ts, v FROM peak WHERE v > 3.5"
ROWS = make_rows(*map(float, range(20)))
SITES = pa.table(
    {
        "host": ["a"],
        "site": ["x"],
        "_valid_from": pa.array([START], ARROW_TYPES["timestamp"]),
        "_valid_to": pa.array([START + timedelta(days=1)], ARROW_TYPES["timestamp"]),
    }
)


class CountedRows:
    """Rows of every stream; counts how many are read of the data frames that it returns."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._read = spark.sparkContext.accumulator(0)

    def count_reads(self, action: Callable[[], Any]) -> tuple[Any, int]:
        """The result of an action and how often it read all rows."""
        before = self._read.value
        result = action()
        return result, (self._read.value - before) // len(ROWS)

    def to_frame(self, rows: pa.Table) -> DataFrame:
        """See `LiveStreamRows`."""
        read = self._read

        def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                read.add(batch.num_rows)
                yield batch

        frame = self._spark.createDataFrame(rows)
        return frame.mapInArrow(count, frame.schema)

    def columns(self, stream: str) -> Mapping[str, str]:
        """See `moirae.evaluation.contexts.evaluator.StreamRows`."""
        return COLUMNS

    def read_near(self, stream: str, time_ranges: Any, allowed_values: Any) -> None:
        """See `moirae.evaluation.contexts.evaluator.StreamRows`."""

    def rows_near(self, stream: str, time_ranges: Any, allowed_values: Any) -> DataFrame:
        """See `moirae.evaluation.contexts.evaluator.StreamRows`."""
        return self.to_frame(ROWS)


class Unlimited:
    """A guard without limits. No rule may fail."""

    def __init__(self, spark: SparkSession) -> None:
        self._statements = SparkStatements(lambda: spark)

    def isolate_suspects(self, rules: Sequence[Any], name: Any) -> list[Sequence[Any]]:
        """See `Guard`."""
        return [rules]

    def run_statement(
        self, rules: Any, row_count: int, statement: Statement, *, is_part: bool
    ) -> pa.Table:
        """See `Guard`."""
        return self._statements.run(statement)


@pytest.fixture
def rows(spark: SparkSession) -> CountedRows:
    return CountedRows(spark)


def _rule(name: str, expr: str, **contexts: str) -> ActiveRule:
    queries = {context: {"sql": sql, "within": "1h"} for context, sql in contexts.items()}
    spec = AlertSpec.model_validate({"alert": name, "expr": expr, "context": queries})
    derived = (DerivedQuery("g", "peak", DERIVED), DerivedQuery("g", "hot", HOT))
    rule = Rule("g", spec, derived)
    columns = {context: {"v": "double"} for context in contexts}
    types = {"host": "string", "v": "double"}
    definition = Definition(rule, types, ("host",), ("host",), columns)
    return ActiveRule.create(definition, {"s": "ts"}, frozenset({"sites"}))


def _evaluate(
    spark: SparkSession, rows: CountedRows, rules: Sequence[ActiveRule]
) -> tuple[dict[str, int], int]:
    """The number of events by rule, and how often the stream was read."""
    any_rows: Any = rows
    guard: Any = Unlimited(spark)
    evaluator = RuleEvaluator(
        rows=any_rows,
        guard=guard,
        losses=make_losses(),
        columns={"s": COLUMNS},
        relations={"sites": {"host": "string", "site": "string"}},
        engines=RuleEngines(EngineChoice("spark")),
    )
    evaluator.set_relation("sites", SITES)
    source = RowSource(len(ROWS), lambda: ROWS, rows.to_frame)
    result: EvaluationResult
    result, reads = rows.count_reads(lambda: evaluator.evaluate_rows(rules, {"s": source}))
    assert not result.failed
    return {rule.name: len(events) for rule, events in result.event_rows}, reads


@pytest.mark.slow
def test_derived_stream_of_several_rules_is_computed_once(
    spark: SparkSession, rows: CountedRows
) -> None:
    """Also by rules that share a query, and by those that do not."""
    rules = [
        _rule("Upper", "SELECT upper(host) AS host, ts, v FROM peak WHERE v > 3.5"),
        _rule("Lower", "SELECT lower(p.host) AS host, p.ts, p.v FROM peak p WHERE p.v < 3.5"),
        _rule("High", "SELECT host, ts, v FROM peak WHERE v > 15"),
        _rule("Higher", "SELECT host, ts, v FROM peak WHERE v > 17"),
    ]
    alone: dict[str, int] = {}
    for rule in rules:
        events, reads = _evaluate(spark, rows, [rule])
        assert reads == 1
        alone |= events
    assert alone == {"g/Upper": 16, "g/Lower": 4, "g/High": 4, "g/Higher": 2}
    assert _evaluate(spark, rows, rules) == (alone, 1)
    assert [
        view.name for view in spark.catalog.listTables() if view.name.startswith("shared")
    ] == []


UPPER = "SELECT upper(host) AS host, ts, v FROM peak WHERE v > 3.5"  # not shared


@pytest.mark.slow
@pytest.mark.parametrize(
    "shared_query",
    [
        "SELECT host, ts, v FROM hot WHERE v > {}",
        "SELECT p.host, p.ts, p.v FROM sites JOIN peak p ON p.host = sites.host WHERE p.v > {}",
    ],
)
def test_derived_stream_inside_of_a_source_or_a_join_is_computed_once(
    spark: SparkSession, rows: CountedRows, shared_query: str
) -> None:
    rules = [
        _rule("High", shared_query.format(15)),
        _rule("Higher", shared_query.format(17)),
        _rule("Upper", UPPER),
    ]
    events, reads = _evaluate(spark, rows, rules)
    assert events == {"g/High": 4, "g/Higher": 2, "g/Upper": 16}
    assert reads == 1


@pytest.mark.slow
def test_equal_contexts_of_several_rules_are_computed_once(
    spark: SparkSession, rows: CountedRows
) -> None:
    expr = "SELECT host, ts, v FROM s"
    other = "SELECT c.v FROM s c WHERE c.host = event.host AND c.v > event.v"
    pairs = [
        (_rule("A", expr, near=NEAR), [_event(1, 3.0), _event(2, 4.0)]),
        (_rule("B", expr, around=NEAR, higher=other), [_event(3, 5.0)]),
        (_rule("C", expr, near=NEAR), [_event(4, 6.0)]),
    ]
    alone: dict[tuple[str, UUID], Any] = {}
    for pair in pairs:
        alone |= ContextEvaluator(spark, rows).compute([pair])
    contexts, reads = rows.count_reads(lambda: ContextEvaluator(spark, rows).compute(pairs))
    assert contexts == alone
    assert len(contexts) == 4
    assert contexts["g/C", UUID(int=4)].contexts["near"]
    assert len(contexts["g/B", UUID(int=3)].contexts["higher"]) == 14
    assert reads == 2, "once for each of two different queries"


def _event(number: int, value: float) -> RecallEvent:
    time = START_MICROS + 60_000_000
    return RecallEvent(UUID(int=number), time, {"host": "a"}, {"host": "a", "v": value})
