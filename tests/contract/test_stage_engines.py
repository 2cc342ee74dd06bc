"""Stages: DuckDB and Spark give the same rows, over answers and live rows with nulls and NaN."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from archiver.delta.schema import StreamSchema
from archiver.delta.table import StreamTable
from archiver.read.reader import Reader, SnapshotReader
from archiver.times import to_micros
from recall.engines.routing.choice import EngineChoice
from recall.errors import SparkRequired
from recall.event_plans import Stage
from recall.query.row_keys import row_key_columns
from recall.requests import RecallEvent
from recall.sandbox import harden_session
from recall.stages.evaluation import StageEvaluator, StageInput
from recall.stages.statements import StageQuery

pytestmark = pytest.mark.services

START = datetime(2026, 1, 1, tzinfo=UTC)
COLUMNS = {"ts": "timestamp", "host": "string", "v": "double", "n": "bigint"}
SCHEMA = StreamSchema("s", COLUMNS, "ts", None, ("host",), timedelta(0), timedelta(0))
ANSWER = {"host": "string", "mean": "double", "n": "bigint", "at": "timestamp", "ok": "boolean"}
ATTRIBUTES = {"host": "string", "limit": "double"}
QUERIES: dict[str, dict[str, str]] = {
    "SELECT a.host, a.mean FROM answer a WHERE a.mean < event.limit": {
        "host": "string",
        "mean": "double",
    },
    "SELECT DISTINCT a.host, a.ok FROM answer a": {"host": "string", "ok": "boolean"},
    "SELECT a.host, count(*) AS c, sum(a.n) AS s, avg(a.n) AS m, min(a.at) AS t, max(a.ok) AS o "
    "FROM answer a GROUP BY a.host HAVING count(*) > 1 OR max(a.n) IS NULL": {
        "host": "string",
        "c": "bigint",
        "s": "bigint",
        "m": "double",
        "t": "timestamp",
        "o": "boolean",
    },
    "SELECT count(*) AS c, count(DISTINCT a.host) AS d, stddev(a.mean) AS sd FROM answer a": {
        "c": "bigint",
        "d": "bigint",
        "sd": "double",
    },
    "SELECT a.host, p.v, p.ts FROM answer a JOIN s p ON p.host = a.host": {
        "host": "string",
        "v": "double",
        "ts": "timestamp",
    },
    "SELECT a.host, max_by(p.v, p.ts) AS last, count(p.n) AS c FROM answer a LEFT JOIN s p "
    "ON p.host = a.host AND p.ts BETWEEN event.ts - INTERVAL 20 SECONDS AND event.ts "
    "GROUP BY a.host": {"host": "string", "last": "double", "c": "bigint"},
    "SELECT a.*, b.mean AS other FROM answer a JOIN answer b ON a.host = b.host AND a.n <= b.n": {
        **ANSWER,
        "other": "double",
    },
    "SELECT max(p.v) - min(p.v) AS span, count(*) AS c FROM s p WHERE p.host = event.host": {
        "span": "double",
        "c": "bigint",
    },
    "SELECT a.host, CASE WHEN a.mean > 1 THEN a.n ELSE 0 END AS x, a.n % 3 AS r FROM answer a": {
        "host": "string",
        "x": "bigint",
        "r": "bigint",
    },
}
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "host": st.sampled_from([None, "a", "b", "c"]),
            "mean": st.sampled_from([None, "NaN", -0.0, 0.0, 1.5, 7.25, "Infinity"]),
            "n": st.sampled_from([None, 0, 3, 1 << 40]),
            "at": st.sampled_from(
                [None, "2026-01-01T00:00:01.000001Z", "2026-01-01T00:00:02.000000Z"]
            ),
            "ok": st.sampled_from([None, True, False]),
        }
    ),
    max_size=6,
)


@pytest.fixture(scope="module")
def evaluators(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[StageEvaluator, StageEvaluator]:
    """With DuckDB alone, and with Spark alone."""
    root = tmp_path_factory.mktemp("archive")
    _fill(root)

    def session() -> SparkSession:
        return harden_session(spark.newSession())

    def evaluator(setting: Any) -> StageEvaluator:
        return StageEvaluator(
            SnapshotReader(Reader(root, [SCHEMA])),
            relations=_no_relations,
            session=session,
            choice=EngineChoice(setting),
            max_rows=10_000,
        )

    return evaluator("local"), evaluator("spark")


def _no_relations(name: str) -> Any:
    raise AssertionError(name)


def _fill(root: Path) -> None:
    table = StreamTable(root, SCHEMA)
    values = [None, float("nan"), -0.0, 1.5, 1e300]
    rows: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for number in range(60):
        rows["ts"].append(START + timedelta(seconds=number))
        rows["host"].append(["a", "b", None][number % 3])
        rows["v"].append(values[number % 5])
        rows["n"].append(None if number % 7 == 0 else number)
    arrow = SCHEMA.arrow_schema()
    columns = {name: pa.array(values, arrow.field(name).type) for name, values in rows.items()}
    blank = {f.name: pa.nulls(60, f.type) for f in arrow if f.name not in columns}
    late = pa.array([number % 10 == 0 for number in range(60)])
    full = {**blank, **columns, "_late": late, "chunk": pa.array([0] * 60, pa.int32())}
    table.append(pa.table(full).select(arrow.names), 0)


def _query(sql: str) -> StageQuery:
    reads_stream = " s p" in sql
    stage = Stage(
        name="stage",
        sql=sql,
        inputs={"answer": ANSWER} if "answer" in sql else {},
        columns=QUERIES[sql],
        row_key=row_key_columns(sql),
        streams={"s": "ts"} if reads_stream else {},
        within=15_000_000,
        delay=3_000_000,
        analysis="event",
    )
    return StageQuery(stage, ATTRIBUTES, {"s": COLUMNS})


@pytest.mark.parametrize("sql", list(QUERIES))
def test_queries_are_run_by_duckdb(sql: str) -> None:
    assert not isinstance(_query(sql).duckdb_sql, SparkRequired)


@pytest.mark.slow
@settings(
    max_examples=12, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)
@given(st.sampled_from(list(QUERIES)), ROWS, ROWS, st.sampled_from([None, "NaN", 1.5, 3.0]))
def test_duckdb_and_spark_give_the_same_rows(
    evaluators: tuple[StageEvaluator, StageEvaluator],
    sql: str,
    first: list[dict[str, Any]],
    second: list[dict[str, Any]],
    limit: Any,
) -> None:
    query = _query(sql)
    inputs = []
    for number, rows in enumerate((first, second), 1):
        at = to_micros(START + timedelta(seconds=20 * number))
        attributes = {"host": "ab"[number - 1], "limit": limit}
        event = RecallEvent(UUID(int=number), at, {}, attributes)
        inputs.append(StageInput(event, {"answer": rows}))
    outcomes = []
    for evaluator in evaluators:
        live_rows = evaluator.snapshot([query.stage], [item.event for item in inputs])
        outcomes.append(evaluator.evaluate(query, inputs, live_rows))
    duckdb, spark = outcomes
    assert _rounded(duckdb) == _rounded(spark)


def _rounded(outcome: dict[UUID, Any]) -> dict[UUID, list[str]]:
    """Rows in an order of their own; sums depend on the order of rows."""
    return {eid: sorted(map(_text, rows)) for eid, rows in outcome.items()}


def _text(row: dict[str, Any]) -> str:
    return str(
        {
            name: f"{value + 0.0:.9g}" if isinstance(value, float) else value
            for name, value in sorted(row.items())
        }
    )
