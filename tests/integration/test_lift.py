"""A query lifted to many events gives each event the answer of a single query."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from pyspark.sql import SparkSession
from sqlglot import exp, parse_one

from archiver.time_range import TimeRange
from archiver.times import from_micros, to_micros
from recall.engines.pending_events import PendingEvent, create_event_table, create_pending_frame
from recall.query.bind import PhysicalTables
from recall.query.lift import EventScope, TableBindings, lift_query
from recall.query.shape import Tables
from recall.requests import RecallEvent
from tests.sampled import every

pytestmark = pytest.mark.services

START = datetime(2026, 1, 1, tzinfo=UTC)
TABLES = Tables({"cpu": "ts"}, frozenset({"hosts"}))
SCOPE = EventScope(TABLES, ("host", "limit"), frozenset({"running"}))
BINDINGS = TableBindings(
    PhysicalTables({"cpu": "lift_cpu", "hosts": "lift_hosts", "running": "lift_running"}),
    PhysicalTables({}),
    "lift_pending",
)
WITHIN = timedelta(minutes=3)
EVENTS = [("a", 20.0, 2), ("b", 5.0, 5), ("a", 45.0, 9), ("nobody", 0.0, 9)]

QUERIES = [
    "SELECT slice FROM cpu WHERE host = event.host",
    "SELECT DISTINCT slice FROM cpu WHERE host = event.host AND cpu > event.limit",
    "SELECT event.host AS mine, event.limit * 2 AS twice, event.ts AS at",
    "SELECT event.host",
    "SELECT avg(cpu) AS a, count(*) AS n, sum(1) AS one, event.limit - max(cpu) AS d FROM cpu "
    "WHERE host = event.host",
    "SELECT c.slice AS slice, count(*) AS n FROM cpu c WHERE c.host = event.host GROUP BY "
    "c.slice HAVING count(*) > 1",
    "SELECT slice, max(cpu) AS top FROM cpu GROUP BY 1 ORDER BY top DESC, slice LIMIT 2",
    "SELECT h.site AS site FROM hosts h WHERE h.host = event.host",
    "SELECT c.slice AS slice, h.site AS site FROM cpu c JOIN hosts h ON c.host = h.host WHERE "
    "c.host <> event.host",
    "SELECT c.slice AS slice, h.site AS site FROM cpu c LEFT JOIN hosts h ON c.host = h.host AND "
    "h.site = 'x'",
    "SELECT count(*) AS n FROM cpu c JOIN running r ON c.slice = r.slice",
    "SELECT r.slice AS slice FROM running r",
    "WITH mine AS (SELECT slice, cpu FROM cpu WHERE host = event.host) SELECT slice FROM mine "
    "WHERE cpu > 10",
    "SELECT slice FROM cpu WHERE host = event.host UNION SELECT site FROM hosts WHERE host = "
    "event.host",
    "SELECT x.n AS n FROM (SELECT count(*) AS n FROM cpu WHERE host = event.host) AS x",
    "SELECT slice, rank() OVER (PARTITION BY slice ORDER BY cpu) AS r FROM cpu WHERE host = "
    "event.host",
    "SELECT * FROM hosts h WHERE h.host = event.host",
    "SELECT count(*) FILTER (WHERE cpu > event.limit) AS hot FROM cpu",
]


def _row(number: int) -> dict[str, Any]:
    return {
        "ts": START + timedelta(seconds=7 * number),
        "host": "abc"[number % 3],
        "slice": f"s{number * number % 5}",
        "cpu": None if number % 11 == 0 else float(number * 37 % 50),
    }


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    session = spark.newSession()
    cpu = session.createDataFrame(
        [_row(n) for n in range(90)], "ts timestamp, host string, slice string, cpu double"
    )
    cpu.createOrReplaceTempView("lift_cpu")
    change = START + timedelta(minutes=6)
    versions = [
        ("a", "x", START - timedelta(days=1), change),
        ("a", "y", change, START + timedelta(days=9)),
    ]
    hosts = [*versions, ("b", "x", START - timedelta(days=1), START + timedelta(days=9))]
    session.createDataFrame(
        hosts, "host string, site string, _valid_from timestamp, _valid_to timestamp"
    ).createOrReplaceTempView("lift_hosts")
    create_event_table(session, _running(), {"slice": "string"}).createOrReplaceTempView(
        "lift_running"
    )
    within_micros = WITHIN // timedelta(microseconds=1)
    pending_events = [
        PendingEvent(event, TimeRange(event.ts - within_micros, event.ts + 1))
        for event in _events()
    ]
    create_pending_frame(
        session, pending_events, {"host": "string", "limit": "double"}
    ).createOrReplaceTempView("lift_pending")
    return session


def _events() -> list[RecallEvent]:
    return [
        RecallEvent(
            UUID(int=n + 1),
            to_micros(START + timedelta(minutes=at)),
            {},
            {"host": host, "limit": limit},
        )
        for n, (host, limit, at) in enumerate(EVENTS)
    ]


def _running() -> dict[str, list[dict[str, Any]]]:
    return {str(UUID(int=n + 1)): [{"slice": f"s{n}"}, {"slice": "s4"}] for n in range(3)}


def _alone(session: SparkSession, sql: str, event: RecallEvent) -> Counter[Any]:
    """The plain query, constants for the event's attributes, over views that hold only what belongs
    to the event.
    """
    moment = f"TIMESTAMP '{from_micros(event.ts):%Y-%m-%d %H:%M:%S}'"
    low = f"TIMESTAMP '{from_micros(event.ts) - WITHIN:%Y-%m-%d %H:%M:%S}'"
    session.sql(
        f"SELECT * FROM lift_cpu WHERE ts >= {low} AND ts <= {moment}"
    ).createOrReplaceTempView("cpu")
    session.sql(
        f"SELECT host, site FROM lift_hosts WHERE _valid_from <= {moment} AND _valid_to > {moment}"
    ).createOrReplaceTempView("hosts")
    session.sql(
        f"SELECT slice FROM lift_running WHERE _eid = '{event.eid}'"
    ).createOrReplaceTempView("running")
    values = {
        "host": f"'{event.attributes['host']}'",
        "limit": f"{event.attributes['limit']}D",
        "ts": moment,
    }

    def constant(node: exp.Expression) -> exp.Expression:
        return (
            parse_one(values[node.name], read="spark")
            if isinstance(node, exp.Column) and node.table == "event"
            else node
        )

    plain = parse_one(sql, read="spark").transform(constant).sql(dialect="spark")
    return Counter(tuple(row) for row in session.sql(plain).collect())


@pytest.mark.parametrize(
    "sql",
    every(4, QUERIES),
)
def test_lifted_query_gives_each_event_the_answer_of_a_single_query(
    session: SparkSession, sql: str
) -> None:
    rows_by_event: dict[str, Counter[Any]] = {}
    for row in session.sql(lift_query(sql, SCOPE, BINDINGS).sql).collect():
        eid, *values = tuple(row)
        rows_by_event.setdefault(eid, Counter())[tuple(values)] += 1
    for event in _events():
        assert rows_by_event.get(str(event.eid), Counter()) == _alone(session, sql, event), (
            sql,
            event,
        )
