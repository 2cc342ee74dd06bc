"""Recalls whose queries need all rows at once: each revision is exact over the range that it covers."""

import json
import os
import random
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from typing import Any

import orjson
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from archiver.times import to_micros
from moirae.runtime import storage
from recall.engines.pending_events import JSON_WRITE_OPTIONS
from recall.engines.spark.engine import SparkEngine
from recall.replay.outcome import replay
from recall.replay.sql_answers import SqlReplayer
from tests.integration.history import (
    SCHEMA,
    START,
    History,
    history,
    no_relations,
    run_until,
    without_tasks,
)
from tests.sampled import every

pytestmark = pytest.mark.services

_SEED = int(os.environ.get("MOIRAE_QUERY_SEED", "1"))
_CHUNKS = 11
_ROWS = 30  # of a chunk
_READS = [1, 3, 6, 12]  # chunks of each revision; the newest one has no rows yet
# Each has a defined order where it has rows without a key.
_KINDS = {
    "join": (
        "SELECT a.host AS host, count(*) AS n, sum(b.v) AS total FROM past a JOIN past b "
        "ON a.host = b.host AND b.ts > a.ts AND b.ts <= a.ts + INTERVAL {k} SECONDS "
        "WHERE a.v > {v} GROUP BY a.host"
    ),
    "left join of an aggregate": (
        "SELECT a.v AS v, a.ts AS ts, m.top AS top FROM past a LEFT JOIN "
        "(SELECT host, max(v) AS top FROM past WHERE v < {v} GROUP BY host) m ON a.host = m.host "
        "WHERE a.host = event.host ORDER BY a.ts DESC LIMIT {k}"
    ),
    "relation first": (
        "SELECT count(*) AS n, count(b.v) AS m FROM (SELECT DISTINCT host FROM past) a "
        "LEFT JOIN past b ON a.host = b.host AND b.v > {v}"
    ),
    "over": (
        "SELECT host, ts, v - lag(v) OVER (PARTITION BY host ORDER BY ts) AS step, "
        "sum(v) OVER (ORDER BY ts ROWS BETWEEN {k} PRECEDING AND CURRENT ROW) AS recent "
        "FROM past WHERE v > {v} ORDER BY ts LIMIT 50"
    ),
    "over outside": (
        "SELECT host, n, rank() OVER (ORDER BY n, host) AS place FROM "
        "(SELECT host, count(*) AS n FROM past WHERE v > {v} GROUP BY host) x"
    ),
    "groups of groups": (
        "SELECT n % {k} AS k, count(*) AS hosts, max(n) AS top FROM (SELECT host, v, count(*) AS n "
        "FROM past GROUP BY host, v) x GROUP BY n % {k}"
    ),
    "limit inside": (
        "SELECT x.host AS host, avg(x.v) AS mean FROM (SELECT host, v FROM past "
        "WHERE v > {v} ORDER BY v, ts LIMIT {k}) x GROUP BY x.host HAVING count(*) > 1"
    ),
    "distinct inside": "SELECT count(*) AS n FROM (SELECT DISTINCT host, v FROM past WHERE v > {v}) x",
    "union": (
        "SELECT host, v FROM past WHERE v > {v} UNION SELECT host, v + 1 FROM past WHERE v < {k} "
        "ORDER BY host, v"
    ),
    "except": (
        "SELECT count(*) AS n FROM (SELECT v FROM past WHERE host = event.host "
        "EXCEPT SELECT v FROM past WHERE host <> event.host) x"
    ),
    "intersect": (
        "SELECT v FROM past WHERE host = event.host INTERSECT SELECT v + {k} FROM past WHERE v < {v}"
    ),
    "star": (
        "SELECT * FROM (SELECT host, v, ts, row_number() OVER (PARTITION BY host ORDER BY ts DESC) "
        "AS number FROM past) x WHERE number <= {k} ORDER BY host, number"
    ),
    "with": (
        "WITH busy AS (SELECT host, avg(v) AS mean FROM past GROUP BY host), top AS "
        "(SELECT max(mean) AS mean FROM busy) SELECT b.host AS host FROM busy b CROSS JOIN top t "
        "WHERE b.mean >= t.mean - {k}"
    ),
    "exists": (
        "SELECT a.host AS host, count(*) AS n FROM past a WHERE a.v > {v} AND EXISTS "
        "(SELECT 1 FROM past b WHERE b.host = a.host AND b.ts < a.ts "
        "AND b.ts >= a.ts - INTERVAL {k} SECONDS AND b.v < {v}) GROUP BY a.host"
    ),
    "not exists": (
        "SELECT count(*) AS n FROM past a WHERE NOT EXISTS (SELECT 1 FROM past b "
        "WHERE b.v = a.v AND b.host = event.host AND b.ts <> a.ts)"
    ),
    "in groups": (
        "SELECT host, v, ts FROM past WHERE host IN (SELECT host FROM past WHERE v > {v} "
        "GROUP BY host HAVING count(*) > {k}) ORDER BY ts DESC LIMIT 20"
    ),
    "in rows": (
        "SELECT a.v AS v, count(*) AS n FROM past a WHERE a.v IN (SELECT b.v + 1 FROM past b "
        "WHERE b.host = event.host AND b.ts < a.ts) AND a.host <> event.host GROUP BY a.v"
    ),
    "not in": (
        "SELECT count(*) AS n FROM past a WHERE a.v NOT IN (SELECT b.v FROM past b "
        "WHERE b.host = event.host AND b.ts < a.ts)"
    ),
    "full join": (
        "SELECT a.host AS host, b.v AS v, a.n AS n FROM (SELECT host, count(*) AS n FROM past "
        "WHERE v > {v} GROUP BY host) a FULL JOIN (SELECT v, min(host) AS host FROM past "
        "GROUP BY v) b ON a.host = b.host AND a.n > {k}"
    ),
    "scalar subquery": (
        "SELECT a.host AS host, a.ts AS ts, (SELECT count(*) FROM past b WHERE b.host = a.host "
        "AND b.v > a.v) AS higher FROM past a WHERE a.v >= {v} OR a.v IN (SELECT b.v FROM past b "
        "WHERE b.host = event.host)"
    ),
    "offset": "SELECT host, v, ts FROM past WHERE v > {v} ORDER BY ts LIMIT 20 OFFSET {k}",
    "rollup": "SELECT host, v % {k} AS k, count(*) AS n FROM past GROUP BY ROLLUP (host, v % {k})",
    "correlation": (
        "SELECT host, regr_count(v, unix_timestamp(ts)) AS n, max(v) AS v FROM past GROUP BY host"
    ),
    "no rows": (
        "SELECT count(*) AS n, max(a.v) AS top FROM past a JOIN past b ON a.ts = b.ts "
        "AND a.host <> b.host"
    ),
}


@pytest.fixture(scope="module")
def all_chunks() -> Iterator[History]:
    with history(_CHUNKS, _ROWS) as new_history:
        yield new_history


@pytest.fixture
def past(all_chunks: History) -> History:
    return without_tasks(all_chunks)


def _expect(spark: SparkSession, past: History, sql: str, coverage: dict[str, Any]) -> list[Any]:
    """The rows of a query over the covered range, by Spark alone."""
    low, high = coverage["read_from"], coverage["read_to"]
    rows = []
    for second, host, v in past.rows:
        ts = START + timedelta(seconds=second)
        if (low is None or to_micros(ts) >= low) and (high is not None and to_micros(ts) < high):
            rows.append({"ts": ts, "host": host, "v": v})
    schema = pa.schema(
        [("ts", pa.timestamp("us", "UTC")), ("host", pa.string()), ("v", pa.int64())]
    )
    spark.createDataFrame(pa.Table.from_pylist(rows, schema)).createOrReplaceTempView("past")
    frame = spark.sql(sql.replace("event.host", "'h0'"))
    columns = [F.col(f"`{name}`") for name in frame.columns]
    written = frame.select(F.to_json(F.struct(*columns), JSON_WRITE_OPTIONS)).collect()
    return [json.loads(row[0]) for row in written]


def _sorted(rows: list[Any]) -> list[Any]:
    return sorted(rows, key=lambda row: orjson.dumps(row, option=orjson.OPT_SORT_KEYS))


def _is_ordered(sql: str) -> bool:
    return " ORDER BY " in sql.rpartition(")")[2]


@pytest.mark.parametrize("kind", every(14, _KINDS))
def test_each_revision_equals_the_query_over_its_range(
    kind: str, past: History, spark: SparkSession
) -> None:
    session = spark.newSession()
    rng = random.Random(f"{kind} {_SEED}")
    sql = _KINDS[kind].format(k=rng.randrange(2, 9), v=rng.randrange(10, 60))
    tasks = [past.add_task(number, sql) for number in range(2)]
    with past.manager(session=spark.newSession) as manager:
        run_until(manager, lambda: all(past.task(one)["state"] == "done" for one in tasks), 120)
    for task in tasks:
        revisions = past.revisions(task)
        covered = [revision["coverage"]["read"] for revision in revisions]
        assert covered == _READS
        for revision in revisions:
            expected = _expect(session, past, sql, revision["coverage"])
            answer = revision["answer"]
            if not _is_ordered(sql):
                answer, expected = _sorted(answer), _sorted(expected)
            assert answer == expected
        assert revisions[-1]["coverage"]["final"] and not revisions[-1]["coverage"]["partial"]
        reads = past.task(task)["seen"]
        assert [(first, last) for first, last, _ in reads] == list(pairwise([0, *_READS]))


def _write_rows(rng: random.Random, depth: int) -> str:
    """A random query whose rows have host, v and ts, in a defined order where that matters."""
    if not depth:
        condition = rng.choice(["v > 20", "v < 70", "host <> event.host", "v % 3 = 1", "true"])
        return f"SELECT host, v, ts FROM past WHERE {condition}"
    inner = _write_rows(rng, depth - 1)
    other = _write_rows(rng, rng.randrange(depth))
    few = f"SELECT host, v, ts FROM ({other}) f ORDER BY ts DESC, v, host LIMIT {rng.randrange(1, 30)}"
    return rng.choice(
        [
            f"SELECT host, max(v) AS v, min(ts) AS ts FROM ({inner}) g GROUP BY host",
            f"SELECT DISTINCT host, v, max(ts) OVER (PARTITION BY host) AS ts FROM ({inner}) d",
            "SELECT host, v - lag(v, 1, 0L) OVER (PARTITION BY host ORDER BY ts, v) AS v, ts "
            f"FROM ({inner}) w",
            f"SELECT host, v, ts FROM ({inner}) l ORDER BY v, ts, host LIMIT {rng.randrange(1, 99)}",
            f"SELECT * FROM (({inner}) UNION ALL (SELECT * FROM ({few}) x)) u",
            f"SELECT * FROM (({inner}) EXCEPT ({other})) e",
            f"SELECT * FROM (({inner}) INTERSECT ({other})) i",
            f"SELECT a.host AS host, a.v + b.v AS v, b.ts AS ts FROM ({inner}) a JOIN ({few}) b "
            "ON a.host = b.host AND a.ts <= b.ts",
            f"SELECT a.host AS host, coalesce(b.v, -1L) AS v, a.ts AS ts FROM ({few}) a LEFT JOIN "
            f"(SELECT host, max(v) AS v FROM ({inner}) m GROUP BY host) b ON a.host = b.host",
            f"SELECT host, v, ts FROM ({inner}) s WHERE EXISTS (SELECT 1 FROM ({few}) t "
            "WHERE t.host = s.host AND t.v < s.v)",
            f"SELECT host, v, ts FROM ({inner}) s WHERE NOT EXISTS (SELECT 1 FROM ({few}) t "
            "WHERE t.v = s.v)",
            f"SELECT host, v, ts FROM ({inner}) s WHERE v IN (SELECT v FROM ({other}) t)",
            f"SELECT host, v, ts FROM ({inner}) s WHERE v NOT IN (SELECT v FROM ({few}) t)",
            f"SELECT host, v, ts FROM ({inner}) s WHERE v > 50 OR EXISTS (SELECT 1 FROM ({few}) t "
            "WHERE t.host = s.host AND t.ts < s.ts)",
            f"SELECT host, (SELECT max(t.v) FROM ({few}) t WHERE t.host = s.host) AS v, ts "
            f"FROM ({inner}) s",
            f"SELECT coalesce(a.host, b.host) AS host, coalesce(a.v, b.v) AS v, b.ts AS ts FROM "
            f"({few}) a FULL JOIN (SELECT host, max(v) AS v, max(ts) AS ts FROM ({inner}) m "
            "GROUP BY host) b ON a.host = b.host AND a.v < b.v",
        ]
    )


@pytest.mark.parametrize("number", every(12, range(12)))
def test_random_query_equals_spark_over_each_range(
    number: int, past: History, spark: SparkSession
) -> None:
    rng = random.Random(f"{number} {_SEED}")
    sql = (
        "SELECT q.host AS host, count(*) AS n, sum(q.v) AS total, max(q.ts) AS last "
        f"FROM ({_write_rows(rng, rng.randrange(1, 4))}) q GROUP BY q.host"
    )
    task = past.add_task(number, sql)
    with past.manager(session=spark.newSession) as manager:
        run_until(manager, lambda: past.task(task)["ended_at"] is not None, 240)
    assert past.task(task)["error"] is None, sql
    session = spark.newSession()
    for revision in past.revisions(task):
        expected = _expect(session, past, sql, revision["coverage"])
        assert _sorted(revision["answer"]) == _sorted(expected), sql


def test_query_without_history_counts_no_rows(spark: SparkSession) -> None:
    with history(0, 1) as nothing:
        task = nothing.add_task(1, _KINDS["no rows"])
        with nothing.manager(session=spark.newSession) as manager:
            run_until(manager, lambda: nothing.task(task)["ended_at"] is not None)
        assert nothing.task(task)["error"] is None
        assert nothing.revisions(task)[-1]["answer"] == [{"n": 0, "top": None}]


def test_what_does_not_fit_keeps_the_last_revision(
    past: History, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer over the last range that fitted stays, and says why there is no longer one."""
    compute = SparkEngine.compute_partial

    def fail_if_long(engine: SparkEngine, template: Any, event_pieces: Any, tables: Any) -> Any:
        for event, piece in event_pieces:
            if event.ts - (piece.low or 0) > 3 * _ROWS * 1_000_000:
                raise MemoryError("no memory left for the join")
        return compute(engine, template, event_pieces, tables)

    monkeypatch.setattr(SparkEngine, "compute_partial", fail_if_long)
    sql = _KINDS["join"].format(k=3, v=20)
    task = past.add_task(1, sql)
    with past.manager(session=spark.newSession) as manager:
        run_until(manager, lambda: past.task(task)["ended_at"] is not None, 120)
    assert past.task(task)["state"] == "done"
    assert "no memory left" in past.task(task)["error"]
    *_, before, last = past.revisions(task)
    assert _sorted(last["answer"]) == _sorted(before["answer"])
    coverage = last["coverage"]
    assert coverage["final"] and coverage["partial"] and coverage["left"] == 0
    assert (coverage["read"], coverage["failed"]) == (3, 9)
    for bound in ("read_from", "read_to"):
        assert coverage[bound] == before["coverage"][bound]
    session = spark.newSession()
    assert _sorted(last["answer"]) == _sorted(_expect(session, past, sql, coverage))


def test_events_of_a_rule_share_a_query(
    past: History, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute = SparkEngine.compute_partial
    events: list[int] = []

    def count(engine: SparkEngine, template: Any, event_pieces: Any, tables: Any) -> Any:
        events.append(len(event_pieces))
        return compute(engine, template, event_pieces, tables)

    monkeypatch.setattr(SparkEngine, "compute_partial", count)
    sql = _KINDS["except"]
    tasks = [past.add_task(number, sql, host=number % 4) for number in range(8)]
    with past.manager(session=spark.newSession) as manager:
        run_until(manager, lambda: all(past.task(one)["state"] == "done" for one in tasks), 120)
    assert events == [4, 4, 4, 4]  # events with the same host have the same answer
    session = spark.newSession()
    for number, task in enumerate(tasks):
        last = past.revisions(task)[-1]
        expected = _expect(
            session, past, sql.replace("event.host", f"'h{number % 4}'"), last["coverage"]
        )
        assert last["answer"] == expected


def test_answer_is_reproduced_after_late_rows(spark: SparkSession) -> None:
    sql = _KINDS["groups of groups"].format(k=3)
    with history(4, _ROWS) as past:
        task = past.add_task(1, sql)
        with past.manager(session=spark.newSession) as manager:
            run_until(manager, lambda: past.task(task)["revision"] == 1, 120)
            # The last evaluation sees this row, in a range that was read before.
            past.archive_rows([(4 * _ROWS - 2, "late", 1)])
            run_until(manager, lambda: past.task(task)["state"] == "done", 120)
        last = past.revisions(task)[-1]
        expected = _expect(spark.newSession(), past, sql, last["coverage"])
        assert _sorted(last["answer"]) == _sorted(expected)
        past.archive_rows([(4 * _ROWS - 3, "later", 1)])
        root = storage.open_storage(past.settings)
        replayer = SqlReplayer(past.connection, root, [SCHEMA], spark.newSession, no_relations)
        (replayed,) = replay(past.connection, task, {"sql": replayer})
        assert (replayed.equal, replayed.why) == (True, None)


def test_another_process_goes_on_after_each_revision(past: History, spark: SparkSession) -> None:
    """What a process that ends has not stored is read again, and the answers are the same."""
    sql = _KINDS["over outside"].format(v=30)
    task = past.add_task(1, sql)
    for number in range(1, len(_READS)):
        with past.manager(session=spark.newSession) as manager:
            run_until(manager, lambda n=number: past.task(task)["revision"] >= n, 120)  # type: ignore[misc]
    with past.manager(session=spark.newSession) as manager:
        run_until(manager, lambda: past.task(task)["state"] == "done", 120)
    session = spark.newSession()
    revisions = past.revisions(task)
    assert [revision["coverage"]["read"] for revision in revisions] == _READS
    for revision in revisions:
        expected = _expect(session, past, sql, revision["coverage"])
        assert _sorted(revision["answer"]) == _sorted(expected)
