"""Answers of SQL recalls: estimates with each revision, limits, and cancelled queries."""

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from archiver.delta.schema import StreamSchema
from archiver.times import to_micros
from moirae.inspect.past_events import load_answers
from recall.engines.spark.engine import SparkEngine
from recall.engines.template import Template
from recall.operators import limits
from recall.requests import Piece, RecallEvent, SqlQuestion
from tests.integration.history import History, history, run_until


@pytest.fixture(scope="module")
def past() -> Iterator[History]:
    """Twelve chunks; questions over them are served without Spark."""
    with history(12, 50) as new_history:
        yield new_history


def _covered(past: History, coverage: dict[str, Any]) -> dict[str, Any]:
    """What the rows say that an answer says it was computed from."""
    low, high = coverage["read_from"] or 0, coverage["read_to"]
    values = [v for second, _, v in past.rows if low <= to_micros(START) + second * 10**6 < high]
    if not values:
        return {"top": None, "n": 0, "total": None, "mean": None}
    return {
        "top": max(values),
        "n": len(values),
        "total": sum(values),
        "mean": sum(values) / len(values),
    }


def test_each_revision_has_estimates(past: History) -> None:
    """Exact for the rows read, an interval for all rows; in the final revision both are equal."""
    sql = "SELECT max(p.v) AS top, count(*) AS n, sum(p.v) AS total, avg(p.v) AS mean FROM past p"
    task = past.add_task(1, sql)
    with past.manager() as manager:
        run_until(manager, lambda: past.task(task)["state"] == "done")
    revisions = past.revisions(task)
    values = [v for _, _, v in past.rows]
    *earlier, last = revisions
    assert earlier
    for revision in earlier:
        (row,), (estimates,) = revision["answer"], revision["estimates"]
        assert row == _covered(past, revision["coverage"])
        assert row["n"] < len(values) and estimates["top"] == {
            "value": row["top"],
            "low": row["top"],
            "high": None,
        }
        if revision["coverage"]["read"] > 2:
            assert estimates["n"]["value"] == pytest.approx(len(values), rel=0.1)
            assert (
                estimates["total"]["low"]
                <= estimates["total"]["value"]
                <= estimates["total"]["high"]
            )
            assert estimates["mean"]["low"] <= row["mean"] <= estimates["mean"]["high"]
    (row,), (estimates,) = last["answer"], last["estimates"]
    assert (row["n"], row["total"], row["top"]) == (len(values), sum(values), max(values))
    assert all(
        estimates[name] == {"value": row[name], "low": row[name], "high": row[name]} for name in row
    )
    (shown,) = load_answers(past.connection, UUID(int=1))
    assert shown.rows is not None and list(shown.rows[0]) == ["top", "n", "total", "mean"]


def test_recall_over_its_memory_limit_fails_alone(
    past: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the rule and the limit; recalls of the same query are answered."""
    monkeypatch.setattr(limits, "MAX_ROWS", 20)
    large = past.add_task(
        2, "SELECT p.v AS v, count(*) AS n FROM past p GROUP BY p.v", rule="g/large"
    )
    small = past.add_task(3, "SELECT p.host AS h, count(*) AS n FROM past p GROUP BY p.host")
    with past.manager() as manager:
        run_until(
            manager, lambda: all(past.task(one)["ended_at"] is not None for one in (large, small))
        )
    assert past.task(large)["state"] == "failed" and past.task(small)["state"] == "done"
    error = past.task(large)["error"]
    assert error.startswith("recall norm of rule g/large: ") and "limit of 20 groups" in error


class _Endless:
    """Stands for the archive: more rows than can be read in a test."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def refresh(self) -> None: ...

    def local_paths(self, *_: Any) -> list[str]:
        return ["one"]

    def read_dataframe(self, *_: Any) -> DataFrame:
        at = F.timestamp_micros(F.lit(to_micros(START)) + F.col("id") % 1000)
        numbers = self._spark.range(0, 1 << 40, numPartitions=64)
        return numbers.select(at.alias("ts"), F.sha2(F.col("id").cast("string"), 256).alias("h"))

    def schema(self, _: str) -> StreamSchema:
        return StreamSchema(
            "s", {"ts": "timestamp", "h": "string"}, "ts", None, ("h",), timedelta(0), timedelta(0)
        )


START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.services
def test_cancelled_spark_query_stops_at_once(spark: SparkSession) -> None:
    """The job is cancelled while it runs; the session runs the next query."""
    engine = SparkEngine(lambda: spark, _Endless(spark), lambda _: pa.table({}))  # type: ignore[arg-type]
    sql = "SELECT max(s.h) AS top FROM s"
    template = Template(SqlQuestion(None, 1.0, "newest", sql, {"s": "ts"}, (), {}, {}, {}, {}))
    event = RecallEvent(UUID(int=1), to_micros(START) + 10**6, {}, {})
    faults: list[Exception] = []

    def ask() -> None:
        try:
            engine.compute_partial(template, [(event, Piece(0, None, event.ts))], {})
        except Exception as fault:
            faults.append(fault)

    thread = threading.Thread(target=ask)
    thread.start()
    deadline = time.monotonic() + 120
    while thread.is_alive() and time.monotonic() < deadline:
        time.sleep(0.5)
        engine.cancel()
    assert not thread.is_alive() and "cancel" in str(faults[0]).lower()
    assert engine.is_alive() and spark.range(3).count() == 3
