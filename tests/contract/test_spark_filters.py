"""Filters that Spark's expressions evaluate without a statement, as its statements do."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from moirae.evaluation.engine import (
    Charged,
    Declined,
    EvaluationRequest,
    Events,
    Lost,
    RowSource,
)
from moirae.evaluation.plan import ActiveRule
from moirae.evaluation.rule_groups import RuleGroup, RuleGrouper
from moirae.evaluation.spark_filters import SparkFilters
from moirae.evaluation.spark_rules import SparkRules
from recall.engines import RowFilters, SparkStatements, Statement
from tests.unit.moirae.evaluation.builders import make_request, make_rule

pytestmark = pytest.mark.services

COLUMNS = {"ts": "timestamp", "host": "string", "v": "double"}
TEXTS = [None, "", "a", "aa", "ab", "Straße", "é-–", "C:\\Windows\\x", "x" * 4_000, '{"a": 1}']
ROWS = pa.table(
    {
        "ts": pa.array([1_000_000 * n for n in range(len(TEXTS))], pa.timestamp("us", tz="UTC")),
        "host": pa.array(TEXTS),
        "v": pa.array([float(number % 4) for number in range(len(TEXTS))]),
    }
)
CONDITIONS = [
    r"host RLIKE '(.)\\1'",
    r"host RLIKE '(?<!C:)\\\\\\p{L}'",
    "get_json_object(host, '$.a') = 1",
    "size(split(host, '-')) > 1 OR levenshtein(host, 'ab') = 1",
    "exists(array(host, 'b'), x -> x = 'aa')",
    "date_format(ts, 'ss') = '03' AND v > 2",
    "host IS NULL",
]
_T = TypeVar("_T")


class Unlimited:
    """Runs statements and filters without limits of their time."""

    def __init__(self, spark: SparkSession) -> None:
        self._statements = SparkStatements(lambda: spark)

    def run_statement(
        self, rules: Sequence[ActiveRule], row_count: int, statement: Statement, *, is_part: bool
    ) -> pa.Table:
        """See `RuleStatements`."""
        return self._statements.run(statement)

    def run_filters(
        self, rules: Sequence[ActiveRule], row_count: int, evaluate: Callable[[float], _T]
    ) -> _T:
        """See `FilterLimits`."""
        return evaluate(60.0)


def make_groups(*conditions: str) -> list[RuleGroup]:
    """Groups of a rule for each condition."""
    return [
        RuleGroup((make_rule(f"r{number}", f"SELECT ts, host, v FROM s WHERE {condition}"),))
        for number, condition in enumerate(conditions)
    ]


@pytest.fixture
def filters(spark: SparkSession) -> SparkFilters:
    """An engine without filters."""
    return SparkFilters(RuleGrouper({"s": COLUMNS}), RowFilters(lambda: spark), Unlimited(spark))


def describe_events(outcomes: Sequence[Any]) -> list[tuple[str, int, str]]:
    """Events by rule, time and attributes."""
    rows = [row for outcome in outcomes for row in outcome.event_rows]
    return sorted((rule.name, row.ts, repr(row.attributes)) for rule, row in rows)


def test_events_are_those_of_a_statement(spark: SparkSession, filters: SparkFilters) -> None:
    groups = make_groups(*CONDITIONS)
    request = EvaluationRequest({"s": RowSource(len(ROWS), lambda: ROWS, spark.createDataFrame)})
    assert filters.select(groups, request) == groups
    events = describe_events(list(filters.run(groups, request)))
    statements = SparkRules(RuleGrouper({"s": COLUMNS}), Unlimited(spark))
    assert events == describe_events(list(statements.run(groups, request)))
    assert {name for name, _, _ in events} == {f"g/r{n}" for n in range(len(CONDITIONS))}
    again = list(filters.run(groups[2:], request))  # filters stay compiled
    assert describe_events(again) == [event for event in events if event[0] > "g/r1"]


def test_a_filter_loses_the_rows_of_a_long_search_and_fails_alone(filters: SparkFilters) -> None:
    slow, failing, good = make_groups(
        r"host RLIKE '^(x+x+)+y(?!z)' OR host = 'a'",
        "1 / (v - 2) > 0 AND host RLIKE '(.)\\1'",
        "host IS NULL",
    )
    outcomes = list(filters.run([slow, failing, good], make_request(ROWS)))
    (lost,) = [outcome for outcome in outcomes if isinstance(outcome, Lost)]
    (row,) = lost.rows
    assert row.values["host"] == TEXTS[8] and "needs more than" in row.reason
    (charged,) = [outcome for outcome in outcomes if isinstance(outcome, Charged)]
    assert charged.groups == [failing] and "DIVIDE_BY_ZERO" in str(charged.error)
    row_values = {"ts": "1970-01-01T00:00:02+00:00", "host": "a", "v": 2.0}
    assert charged.failing_row == {"stream": "s", "row": row_values}
    events = [outcome for outcome in outcomes if isinstance(outcome, Events)]
    assert [group for outcome in events for group in outcome.groups] == [slow, good]
    assert [name for name, _, _ in describe_events(events)] == ["g/r0", "g/r2"]


def test_more_than_a_filter_is_left_to_statements(filters: SparkFilters) -> None:
    (group,) = make_groups("host = 'a'")
    star = RuleGroup((make_rule("star", "SELECT * FROM s WHERE v > 1"),))
    request = make_request(ROWS)
    outcomes = list(filters.run([group, star], request))
    (declined,) = [outcome for outcome in outcomes if isinstance(outcome, Declined)]
    assert declined.groups == [star]
    assert filters.select([group, star], request) == [group]
    window = "SELECT window.end AS ts, count(*) AS v FROM s GROUP BY window(ts, '1 minute')"
    assert filters.select([RuleGroup((make_rule("window", window),))], request) == []


def test_filters_are_compiled_again_for_other_columns(filters: SparkFilters) -> None:
    (group,) = make_groups("host = 'a'")
    for rows in (ROWS, ROWS.select(["v", "host", "ts"]), ROWS):
        assert len(describe_events(list(filters.run([group], make_request(rows))))) == 1
    filters.remove_inactive([])
    assert len(describe_events(list(filters.run([group], make_request(ROWS))))) == 1
