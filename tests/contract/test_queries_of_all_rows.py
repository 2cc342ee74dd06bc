"""Queries that need all rows, for several events at once, equal Spark's and DuckDB's answer for each.

Each query runs as a recall of two events, with the values of both in one statement; the expected
answers are those of the same text over the same rows, with the event's values written into it, for
DuckDB in its dialect.
"""

import json
import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import duckdb
import pyarrow as pa
import pytest
import sqlglot
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from archiver.delta.schema import StreamSchema
from archiver.times import to_micros
from recall.engines.pending_events import JSON_WRITE_OPTIONS
from recall.engines.routing.partial_cache import PartialCache
from recall.engines.routing.router import EngineRouter
from recall.engines.spark.engine import SparkEngine
from recall.engines.template import Template, merge_partials
from recall.requests import Piece, RecallEvent, SqlQuestion
from tests.contract.queries_of_all_rows import QUERIES
from tests.sampled import every

pytestmark = pytest.mark.services

_START = datetime(2026, 1, 1, tzinfo=UTC)
_END = to_micros(_START + timedelta(hours=1))
_END_TEXT = "2026-01-01 01:00:00+00:00"
_COLUMNS = {
    "cpu": {"ts": "timestamp", "host": "string", "v": "double", "n": "bigint"},
    "jobs": {"ts": "timestamp", "host": "string", "job": "string", "n": "bigint"},
    "logs": {"ts": "timestamp", "host": "string", "line": "string", "tags": "array<string>"},
}
_TYPES = {
    "timestamp": pa.timestamp("us", tz="UTC"),
    "string": pa.string(),
    "double": pa.float64(),
    "bigint": pa.int64(),
    "array<string>": pa.list_(pa.string()),
}
_HOSTS = ["a", "b", "c", None]
_SITES = pa.table(
    {
        "host": ["a", "b", "d"],
        "site": ["x", "x", "y"],
        "_valid_from": pa.array([0] * 3, pa.timestamp("us", tz="UTC")),
        "_valid_to": pa.array([1 << 52] * 3, pa.timestamp("us", tz="UTC")),
    }
)
_EVENTS = [
    RecallEvent(UUID(int=1), _END, {}, {"host": "a", "level": 3}),
    RecallEvent(UUID(int=2), _END, {}, {"host": "b", "level": -1}),
]

_NOT_IN_DUCKDB = frozenset(
    {
        "lateral view posexplode",
        "sessions",
        "with rollup",
        "intervals",
        "arrays",
        "dates",
        "windows of time",
        "between scalars",  # percentile is translated to one that does not interpolate
    }
)
"""Queries whose translation DuckDB refuses, or that then mean something else."""


def _make_rows() -> dict[str, pa.Table]:
    rng = random.Random(7)
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in _COLUMNS}
    for second in range(0, 3600, 60):
        for name, columns in _COLUMNS.items():
            row: dict[str, Any] = {
                "ts": _START + timedelta(seconds=second + rng.randrange(60)),
                "host": rng.choice(_HOSTS),
            }
            if "v" in columns:
                row["v"] = rng.choice([None, rng.randrange(-20, 100) / 4])
            if "n" in columns:
                row["n"] = rng.choice([None, *range(8)])
            if "job" in columns:
                row["job"] = rng.choice(["load", "dump", "scan"])
            if "line" in columns:
                row["line"] = rng.choice(["GET /a 200", "GET /b 404", "POST /a 500", None])
                row["tags"] = rng.choice([["x"], ["x", "y"], [], None])
            rows[name].append(row)
    return {
        name: pa.Table.from_pylist(
            rows[name], pa.schema([(column, _TYPES[kind]) for column, kind in columns.items()])
        )
        for name, columns in _COLUMNS.items()
    }


_ROWS = _make_rows()


class _Memory:
    """Stands for the archive's files."""

    def __init__(self, frames: dict[str, DataFrame]) -> None:
        self._frames = frames

    def local_paths(self, *_: Any) -> list[str]:
        return ["one"]

    def read_dataframe(self, _: Any, name: str, *__: Any) -> DataFrame:
        return self._frames[name]

    def schema(self, name: str) -> StreamSchema:
        return StreamSchema(name, _COLUMNS[name], "ts", None, ("host",), timedelta(0), timedelta(0))


def _template(sql: str) -> Template:
    streams = dict.fromkeys(_COLUMNS, "ts")
    attributes = {"host": "string", "level": "bigint"}
    return Template(
        SqlQuestion(None, 1.0, "newest", sql, streams, ("hosts",), {}, attributes, {}, {})
    )


def _answer(
    engine: SparkEngine, template: Template, events: list[RecallEvent]
) -> dict[str, list[Any]]:
    partials = engine.compute_partial(
        template, [(event, Piece(0, None, event.ts)) for event in events], {}
    )
    router = EngineRouter(engine, None, PartialCache())
    accumulators = [
        (event, merge_partials(template, None, partials.get(str(event.eid)))) for event in events
    ]
    return router.compute_answers(template, accumulators, {})


def _write_values(sql: str, event: RecallEvent) -> str:
    text = sql.replace("event.host", f"'{event.attributes['host']}'")
    text = text.replace("event.level", f"{event.attributes['level']}L")
    return text.replace("event.ts", f"TIMESTAMP '{_END_TEXT}'")


def _expect(spark: SparkSession, sql: str, event: RecallEvent) -> list[Any]:
    frame = spark.sql(_write_values(sql, event))
    columns = [F.col(f"`{name}`") for name in frame.columns]
    rows = frame.select(F.to_json(F.struct(*columns), JSON_WRITE_OPTIONS)).collect()
    return [json.loads(row[0]) for row in rows]


def _expect_of_duckdb(connection: duckdb.DuckDBPyConnection, sql: str, event: RecallEvent) -> Any:
    text = _write_values(sql, event)
    (translated,) = sqlglot.transpile(text, read="spark", write="duckdb")
    return [_as_json(row) for row in connection.sql(translated).to_arrow_table().to_pylist()]


def _as_json(value: Any) -> Any:
    """As Spark writes it."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, list):
        return [_as_json(item) for item in value]
    if isinstance(value, dict):
        return {name: _as_json(item) for name, item in value.items()}
    return value


def _round(value: Any) -> Any:
    if isinstance(value, float):
        return 0.0 if abs(value) < 1e-9 else float(f"{value:.9g}")
    if isinstance(value, list):
        return [_round(item) for item in value]
    if isinstance(value, dict):
        return {name: _round(item) for name, item in value.items()}
    return value


def _sorted(rows: list[Any]) -> list[Any]:
    return sorted(map(_round, rows), key=json.dumps)


@pytest.fixture(scope="module")
def engine(spark: SparkSession) -> SparkEngine:
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "1")
    frames: dict[str, DataFrame] = {}
    for name, rows in _ROWS.items():
        frame = session.createDataFrame(rows).cache()
        frame.createOrReplaceTempView(name)
        frames[name] = frame.withColumn("_extra", F.lit(None).cast("string"))
    session.createDataFrame(_SITES.select(["host", "site"])).createOrReplaceTempView("hosts")
    return SparkEngine(lambda: session, _Memory(frames), lambda _: _SITES)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def in_memory() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, rows in _ROWS.items():
            connection.register(name, rows)
        connection.register("hosts", _SITES.select(["host", "site"]))
        yield connection


def _check(answer: list[Any], expected: list[Any], sql: str) -> None:
    if " ORDER BY " not in sql.rpartition(")")[2]:
        answer, expected = _sorted(answer), _sorted(expected)
    assert list(map(_round, answer)) == list(map(_round, expected))


@pytest.mark.parametrize("kind", every(5, QUERIES))
def test_answer_equals_spark(kind: str, engine: SparkEngine) -> None:
    sql = QUERIES[kind]
    answers = _answer(engine, _template(sql), _EVENTS)
    for event in _EVENTS:
        expected = _expect(engine.session(), sql, event)
        _check(answers.get(str(event.eid), []), expected, sql)


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(QUERIES.keys() - _NOT_IN_DUCKDB))
def test_answer_equals_duckdb(
    kind: str, engine: SparkEngine, in_memory: duckdb.DuckDBPyConnection
) -> None:
    sql = QUERIES[kind]
    answers = _answer(engine, _template(sql), _EVENTS)
    for event in _EVENTS:
        expected = _expect_of_duckdb(in_memory, sql, event)
        _check(answers.get(str(event.eid), []), expected, sql)
