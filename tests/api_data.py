"""A workspace with events, alerts, contexts, recalls and dead letters, for tests of its API."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg import Connection
from psycopg.types.json import Jsonb

START = datetime(2026, 1, 1, tzinfo=UTC)
COUNT = 5
RULE = "g/r"
WORKSPACE = """
home: .moirae
server: {listen: "127.0.0.1:0"}
streams:
  cpu:
    columns: {ts: timestamp, host: string, cpu: double}
    time: ts
    id: [host]
    source: {http: true}
  files:
    columns: {ts: timestamp}
    time: ts
    source: {files: landing/*.jsonl}
rules: [rules.yaml]
watch_rules: false
"""
RULES = """
groups:
- name: g
  rules:
  - alert: r
    expr: SELECT host, ts, cpu FROM cpu WHERE cpu > 90
    key: [host]
    context: {own: {sql: "SELECT event.cpu AS cpu"}}
    recall: {similar: {similar: {contexts: [own]}}}
"""


def event_id(number: int) -> UUID:
    return UUID(int=(0xE0 + number) << 120)


def alert_id(number: int) -> UUID:
    return UUID(int=(0xA0 + number) << 120)


def task_id(number: int) -> UUID:
    return UUID(int=(0xC0 + number) << 120)


def fill(connection: Connection[Any]) -> None:
    """Store the data. The last event has a similarity recall with one hit, the others an SQL one."""
    for number in range(COUNT):
        _put_alert(connection, number)
    for number in range(COUNT - 1):
        put_task(connection, number)
    _put_similar(connection)
    _put_decision(connection, 1)
    unit = connection.execute(
        "INSERT INTO units (stream, unit, done, read, archived, malformed) VALUES"
        " ('cpu', 'batch', true, 2, 1, 1) RETURNING id"
    ).fetchone()
    assert unit is not None
    connection.execute(
        "INSERT INTO streams (name, newest) VALUES ('cpu', %s) ON CONFLICT (name) DO UPDATE SET"
        " newest = excluded.newest",
        (START,),
    )
    connection.execute(
        "INSERT INTO dead_letters (unit_id, line, reason, detail, raw)"
        " VALUES (%s, 2, 'malformed', 'is not valid JSON', '{\"ts')",
        unit,
    )


def _put_alert(connection: Connection[Any], number: int) -> None:
    values = {
        "eid": event_id(number),
        "alert": alert_id(number),
        "rule": RULE,
        "ts": START + timedelta(minutes=number),
        "key": Jsonb({"host": f"host{number}"}),
        "attributes": Jsonb({"host": f"host{number}", "cpu": 91.5}),
        "labels": Jsonb({"alertname": "r", "severity": "page" if number % 2 else "info"}),
        "annotations": Jsonb({"summary": f"host{number} is <b>hot</b>"}),
        "contexts": Jsonb({"own": [{"cpu": 91.5}]}),
        "surroundings": Jsonb({"before": [{"cpu": 1.5}, {"cpu": 1.5}]}),
    }
    connection.execute(
        "INSERT INTO events (eid, rule, version, ts, fingerprint, key, attributes, settled)"
        " VALUES (%(eid)s, %(rule)s, 'v', %(ts)s, %(eid)s::text, %(key)s, %(attributes)s, true)",
        values,
    )
    connection.execute(
        "INSERT INTO alerts (id, eid, rule, version, fingerprint, key, labels, annotations, state,"
        " starts_at, fired_at, last_at, events) VALUES (%(alert)s, %(eid)s, %(rule)s, 'v',"
        " %(eid)s::text, %(key)s, %(labels)s, %(annotations)s, 'firing', %(ts)s, %(ts)s, %(ts)s, 1)",
        values,
    )
    connection.execute(
        "INSERT INTO contexts (rule, version, eid, ts, contexts, surroundings, settled, corpus)"
        " VALUES (%(rule)s, 'v', %(eid)s, %(ts)s, %(contexts)s, %(surroundings)s, true,"
        " nextval('corpus_numbers'))",
        values,
    )


def _put_decision(connection: Connection[Any], number: int) -> None:
    """The decision of a condition on an alert."""
    connection.execute(
        "INSERT INTO alert_history (alert_id, eid, history, final, reason)"
        " VALUES (%s, %s, 'kept', true, 'true for 1 of 2 rows')",
        (alert_id(number), event_id(number)),
    )


def put_task(connection: Connection[Any], number: int, state: str = "done") -> None:
    """An SQL recall of an event with two revisions."""
    request = {"kind": "sql", "sql": "SELECT avg(h.cpu) AS mean FROM cpu h"}
    _insert_task(connection, number, "norm", request, state)
    for revision in (1, 2):
        put_revision(connection, number, revision, [{"mean": revision + 0.5}])


def put_revision(
    connection: Connection[Any], number: int, revision: int, answer: list[dict[str, Any]]
) -> None:
    coverage = {
        "read": revision,
        "left": 2 - revision,
        "failed": 0,
        "by_summary": 0,
        "hopeful": None,
        "asked_from": None,
        "read_from": 1_767_225_600_000_000,
        "read_to": 1_767_225_900_000_000,
        "final": revision == 2,
        "partial": False,
    }
    connection.execute(
        "INSERT INTO revisions (task, number, final, coverage, answer) VALUES (%s, %s, %s, %s, %s)",
        (task_id(number), revision, revision == 2, Jsonb(coverage), Jsonb(answer)),
    )


def _put_similar(connection: Connection[Any]) -> None:
    number = COUNT - 1
    request = {
        "kind": "similar",
        "contexts": ["own"],
        "k": 10,
        "measure": "tfidf",
        "gap": 0,
        "range": None,
        "every": 1_000_000,
        "order": "newest",
    }
    _insert_task(connection, number, "similar", request, "done")
    hit = {
        "past_eid": str(event_id(0)),
        "past_ts": int(START.timestamp() * 1_000_000),
        "rank": 1,
        "score": 0.75,
        "shared": [["cpu=91.5", 1.0]],
        "only_new": [],
        "only_past": ["cpu=1"],
        "corpus": {"events": 5, "seen": [[2, COUNT]]},
    }
    put_revision(connection, number, 1, [])
    put_revision(connection, number, 2, [hit])


def _insert_task(
    connection: Connection[Any], number: int, recall: str, request: dict[str, Any], state: str
) -> None:
    event = {
        "ts": int((START + timedelta(minutes=number)).timestamp() * 1_000_000),
        "key": {"host": f"host{number}"},
        "attributes": {"host": f"host{number}", "cpu": 91.5},
    }
    connection.execute(
        "INSERT INTO tasks (id, eid, rule, version, recall, request, event, state, tickets, revision,"
        " pieces, next, corpus)"
        " VALUES (%s, %s, %s, 'v', %s, %s, %s, %s, 100, 2, '[[1,0,1],[2,1,2]]', 2, %s)",
        (
            task_id(number),
            event_id(number),
            RULE,
            recall,
            Jsonb(request),
            Jsonb(event),
            state,
            COUNT,
        ),
    )
