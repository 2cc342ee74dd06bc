"""Contexts are the same whether DuckDB computes them over rows in memory or Spark does."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from archiver.times import to_micros
from moirae.evaluation.contexts import ContextEvaluator, EventContexts
from moirae.evaluation.plan import ActiveRule
from moirae.rules.definition import Definition
from moirae.rules.model import AlertSpec
from moirae.rules.rule_set import Rule
from recall.engines.routing import EngineChoice
from recall.requests import RecallEvent
from tests.sampled import every

pytestmark = pytest.mark.services

START = datetime(1969, 12, 31, 23, 59, 58, tzinfo=UTC)
COLUMNS = {
    "ts": "timestamp",
    "host": "string",
    "text": "string",
    "small": "int",
    "large": "bigint",
    "flag": "boolean",
    "value": "double",
    "at": "timestamp",
}
ATTRIBUTES = {"host": "string", "n": "bigint", "cpu": "double", "parts": "array<string>"}
MICROSECOND = timedelta(microseconds=1)
EARLY_TIMES = {0: datetime(1, 1, 1, tzinfo=UTC), 3: datetime(385, 7, 25, 12, tzinfo=UTC)}
TEXTS = ["", "a", "ä", 'quote " and \\', "line\nend\t", "\x1f\x7f", "ﬁ 😀", None]
VALUES = [0.0, -0.0, 1e300, 1.5, float("nan"), float("-inf"), 1e-7, None]


def _make_rows(count: int) -> pa.Table:
    times = [START + timedelta(milliseconds=200 * number) for number in range(count)]
    time_type = pa.timestamp("us", tz="UTC")
    return pa.table(
        {
            "ts": pa.array(times, time_type),
            "host": [["a", "b", None][number % 3] for number in range(count)],
            "text": [TEXTS[number % 8] for number in range(count)],
            "small": pa.array(
                [None if number % 5 == 4 else number - 7 for number in range(count)], pa.int32()
            ),
            "large": pa.array([(1 << 62) - number for number in range(count)], pa.int64()),
            "flag": [[True, False, None][number // 3 % 3] for number in range(count)],
            "value": [VALUES[number // 2 % 8] for number in range(count)],
            "at": pa.array(
                [EARLY_TIMES.get(number, time - MICROSECOND) for number, time in enumerate(times)],
                time_type,
            ),
            "_extra": pa.array(['{"a": 1}', None] * (count // 2), pa.string()),
        }
    )


class MemoryRows:
    """Rows near events: `in_memory`, or for Spark only."""

    def __init__(self, spark: SparkSession, rows: pa.Table, *, in_memory: bool) -> None:
        self._spark = spark
        self._rows = rows
        self._in_memory = in_memory
        self.frames = 0  # how many were asked for

    def columns(self, stream: str) -> Mapping[str, str]:
        """See `moirae.evaluation.contexts.evaluator.StreamRows`."""
        return COLUMNS

    def read_near(self, stream: str, time_ranges: Any, allowed_values: Any) -> pa.Table | None:
        """See `moirae.evaluation.contexts.evaluator.StreamRows`."""
        return self._rows if self._in_memory else None

    def rows_near(self, stream: str, time_ranges: Any, allowed_values: Any) -> DataFrame:
        """See `moirae.evaluation.contexts.evaluator.StreamRows`."""
        self.frames += 1
        return self._spark.createDataFrame(self._rows)


EVENTS = [
    RecallEvent(
        UUID(int=number),
        to_micros(START + timedelta(seconds=number)),
        {"host": host},
        {"host": host, "n": number, "cpu": cpu, "parts": ["a"]},
    )
    for number, (host, cpu) in enumerate(
        [("a", 1.5), ("b", "NaN"), ("none", None), ("a", -1e9)], start=1
    )
]


def _rule(section: str, sql: str, columns: Sequence[str], delay: str = "0s") -> ActiveRule:
    query = {"sql": sql, "within": "2s", "delay": delay}
    spec = AlertSpec.model_validate(
        {"alert": "A", "expr": "SELECT host, ts, n, cpu, parts FROM s", section: {"near": query}}
    )
    result_columns = {"near": dict.fromkeys(columns, "string")}
    definition = Definition(Rule("g", spec), ATTRIBUTES, ("host",), ("host",), result_columns)
    return ActiveRule.create(definition, {"s": "ts"}, frozenset({"sites"}))


def _compute(spark: SparkSession, rule: ActiveRule, *, in_memory: bool) -> tuple[list[Any], int]:
    """The contexts of the events, and how many data frames were read for them."""
    rows = MemoryRows(spark, _make_rows(40), in_memory=in_memory)
    contexts = ContextEvaluator(spark, rows).compute([(rule, EVENTS)])
    return [contexts[rule.name, event.eid] for event in EVENTS], rows.frames


LOCAL_CONTEXTS = [
    ("SELECT text FROM s", ["text"]),
    ("SELECT DISTINCT text FROM s WHERE host = event.host", ["text"]),
    ("SELECT DISTINCT flag, small FROM s x WHERE x.host = event.host", ["flag", "small"]),
    ("SELECT small + 1 AS next, large FROM s WHERE value > event.cpu", ["next", "large"]),
    ("SELECT 'x' AS kind, CASE WHEN flag THEN text END AS t FROM s", ["kind", "t"]),
    ("SELECT text FROM s WHERE small > event.n AND text LIKE '%a%'", ["text"]),
    ("SELECT count(*) AS n FROM s WHERE host = event.host", ["n"]),
    ("SELECT large FROM s WHERE large BETWEEN 4611686018427387900 AND 1e300", ["large"]),
    ("SELECT count(small) AS n, min(text) AS a, max(flag) AS b FROM s", ["n", "a", "b"]),
    ("SELECT flag, count(*) AS n FROM s WHERE host = event.host GROUP BY flag", ["flag", "n"]),
    ("SELECT text FROM s WHERE ts < event.ts AND at IS NOT NULL", ["text"]),
]
LOCAL_SURROUNDINGS = [
    (
        "SELECT ts, value, flag, small FROM s WHERE host = event.host",
        ["ts", "value", "flag", "small"],
    ),
    ("SELECT value * 2 AS v, at FROM s WHERE value <= event.cpu", ["v", "at"]),
    (
        "SELECT text, min(at) AS first, max(ts) AS last FROM s GROUP BY text",
        ["text", "first", "last"],
    ),
]
# Functions and casts to text that only Spark has, in filters of rows.
EXPRESSION_CONTEXTS = [
    ("SELECT value FROM s", ["value"]),
    ("SELECT * FROM s WHERE host = event.host", list(COLUMNS)),
    ("SELECT ts FROM s WHERE host = event.host", ["ts"]),
    ("SELECT upper(text) AS t FROM s WHERE length(text) > 2 OR text IS NULL", ["t"]),
    ("SELECT round(value, -1) AS v, round(value / 3, 2) AS w FROM s", ["v", "w"]),
    ("SELECT round(value * 1.5, -1) AS v FROM s x WHERE x.host = event.host", ["v"]),
    ("SELECT bround(value, 1) AS v, ceil(value) AS c FROM s WHERE value < 1e9", ["v", "c"]),
    ("SELECT round(large, -18) AS l, floor(small / 4) AS f FROM s", ["l", "f"]),
    ("SELECT round(CAST(value AS DECIMAL(20, 3)), 1) AS d FROM s WHERE value < 100", ["d"]),
    ("SELECT round(event.cpu - small, 1) AS v FROM s WHERE small < event.n * 2", ["v"]),
    (
        "SELECT date_trunc('SECOND', ts) AS t, event.ts - ts < INTERVAL 1 SECOND AS l FROM s",
        ["t", "l"],
    ),
]
EXPRESSION_SURROUNDINGS = [
    ("SELECT round(value, 1) AS v, ts FROM s", ["v", "ts"]),
    ("SELECT abs(value) AS v, array(small, large) AS l FROM s WHERE NOT isnan(value)", ["v", "l"]),
]
SPARK_CONTEXTS = [
    ("SELECT uuid() AS r FROM s", ["r"]),
    ("SELECT row_number() OVER (ORDER BY ts) AS n FROM s", ["n"]),
    ("SELECT text FROM s ORDER BY ts LIMIT 2", ["text"]),
    ("SELECT count(DISTINCT text) AS n FROM s", ["n"]),
    ("SELECT count(small, large) AS n FROM s", ["n"]),
    ("SELECT sum(small) AS n FROM s", ["n"]),
    ("SELECT text FROM s WHERE array_contains(event.parts, text)", ["text"]),
    ("SELECT small FROM s GROUP BY 1", ["small"]),
    ("SELECT small AS large FROM s GROUP BY large, small", ["large"]),
    ("SELECT flag, count(*) AS n FROM s GROUP BY flag HAVING count(*) > 1", ["flag", "n"]),
    ("SELECT a.text FROM s a JOIN s b ON a.ts = b.ts", ["text"]),
    ("SELECT text FROM (SELECT text FROM s) q", ["text"]),
]
SPARK_SURROUNDINGS = [
    ("SELECT avg(value) AS mean FROM s WHERE host = event.host", ["mean"]),
    ("SELECT DISTINCT value FROM s", ["value"]),
    ("SELECT max(value) AS v FROM s", ["v"]),
]


@pytest.mark.parametrize(
    ("section", "sql", "columns"),
    [
        *every(6, [("context", *query) for query in LOCAL_CONTEXTS]),
        *every(6, [("surroundings", *query) for query in LOCAL_SURROUNDINGS]),
        *every(6, [("context", *query) for query in EXPRESSION_CONTEXTS]),
        *every(6, [("surroundings", *query) for query in EXPRESSION_SURROUNDINGS]),
    ],
)
def test_context_over_few_rows_is_the_same_without_a_statement(
    spark: SparkSession, section: str, sql: str, columns: Sequence[str]
) -> None:
    rule = _rule(section, sql, columns, delay="1s")
    local, frames = _compute(spark, rule, in_memory=True)
    expected, _ = _compute(spark, rule, in_memory=False)
    assert repr(local) == repr(expected), "repr: NaN differs from itself, and 0.0 equals -0.0"
    assert any(
        contexts.contexts.get("near") or contexts.surroundings.get("near") for contexts in local
    )
    assert frames == 0


@pytest.mark.parametrize(
    ("section", "sql", "columns"),
    [
        *every(6, [("context", *query) for query in SPARK_CONTEXTS]),
        *every(6, [("surroundings", *query) for query in SPARK_SURROUNDINGS]),
    ],
)
def test_other_contexts_are_left_to_spark(
    spark: SparkSession, section: str, sql: str, columns: Sequence[str]
) -> None:
    rule = _rule(section, sql, columns)
    contexts, frames = _compute(spark, rule, in_memory=True)
    assert any(part.contexts.get("near") or part.surroundings.get("near") for part in contexts)
    assert frames == 1


def test_setting_spark_leaves_all_contexts_to_spark(spark: SparkSession) -> None:
    rows = MemoryRows(spark, _make_rows(4), in_memory=True)
    rule = _rule("context", "SELECT text FROM s", ["text"])
    ContextEvaluator(spark, rows, choice=EngineChoice("spark")).compute([(rule, EVENTS)])
    assert rows.frames == 1


def test_long_context_is_truncated_alike(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EventContexts, "MAX_ROWS", 5)
    rule = _rule("surroundings", "SELECT value, large FROM s", ["value", "large"])
    local, _ = _compute(spark, rule, in_memory=True)
    expected, _ = _compute(spark, rule, in_memory=False)
    assert repr(local) == repr(expected)
    assert local[0].truncated["near"] > len(local[0].surroundings["near"]) == 5
