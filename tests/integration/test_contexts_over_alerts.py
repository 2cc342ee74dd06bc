"""Contexts and surroundings that read the alerts of all rules, as these were before the event."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from psycopg import Connection
from psycopg.types.json import Jsonb
from pyspark.sql import SparkSession

from archiver.formats import JSONL
from archiver.ingest.source_units import SourceUnit
from archiver.read.reader import Reader
from archiver.time_range import TimeRange
from moirae.alerts import AlertStream, TablesOfRecalls, make_alerting_rule
from moirae.config.settings import Settings
from moirae.config.table_schemas import stream_schema
from moirae.evaluation.plan import ActiveRule
from moirae.history import PastFinder, RelationVersions
from moirae.history.plan import ViewTask, decide
from moirae.rules.requests import build_questions
from recall.engines.spark.engine import SparkEngine
from recall.engines.template import Template
from recall.relation_digests import digest_valid_rows
from recall.requests import Piece, RecallEvent, SqlQuestion
from tests.property.world import START, World, definitions

pytestmark = pytest.mark.services

RULES = """
groups:
- name: g
  rules:
  - alert: Cause
    expr: SELECT host, ts FROM b_rows WHERE w > 5
    key: [host]
    for: 10s
    keep_firing_for: 20s
    labels: {site: north}
  - alert: Effect
    expr: SELECT host, n, ts, v FROM a WHERE v > 70
    key: [host]
    id: [host, n]
    keep_firing_for: 0s
    context:
      others:
        sql: >-
          SELECT x.alert, x.state, x.labels['site'] AS site FROM alerts x
          WHERE x.rule <> 'g/Effect' AND x.key['host'] = event.host
        within: 1m
        delay: 30s
    surroundings:
      own: {sql: "SELECT ts, state, starts_at FROM alerts WHERE rule = 'g/Effect'", within: 1h}
    recall:
      alike: {similar: {contexts: [others]}}
      before:
        sql: >-
          SELECT x.alert, x.state, count(*) AS n FROM alerts x WHERE x.key['host'] = event.host
          AND x.rule <> 'g/Effect' GROUP BY x.alert, x.state
  derived:
  - {stream: b_rows, expr: "SELECT host, at AS ts, w FROM b"}
"""


def ingest(world: World, a: list[tuple[int, float]], b: list[tuple[int, int]]) -> None:
    """Rows of host h: second and value."""
    units = []
    for stream, rows in (("a", a), ("b", b)):
        lines = []
        for second, value in rows:
            ts = (START + timedelta(seconds=second)).isoformat()
            row = {"ts": ts, "host": "h", "v": value, "n": second}
            if stream == "b":
                row = {"at": ts, "host": "h", "w": value}
            lines.append(json.dumps(row).encode())
        if lines:
            units.append(
                SourceUnit(stream, f"{stream}{rows[0][0]}", JSONL, lambda x=lines: iter(x))
            )
    world.ingest(units, at_once=True)
    world.follow_up.run()


def contexts(world: World) -> dict[int, tuple[bool, list[Any], list[Any]]]:
    """By second of the event: whether its context is settled, its rows, those of surroundings."""
    rows = world.connection.execute(
        "SELECT e.ts, c.settled, c.contexts->'others', c.surroundings->'own' FROM contexts c"
        " JOIN events e USING (rule, version, eid) WHERE rule = 'g/Effect'"
    ).fetchall()
    result = {}
    for ts, settled, others, own in rows:
        states = sorted((row["alert"], row["state"], row["site"]) for row in others or [])
        result[int((ts - START).total_seconds())] = (settled, states, own or [])
    return result


FIRING = [("Cause", "firing", "north"), ("Cause", "pending", "north")]


def test_a_context_has_the_alerts_as_they_were_before_its_event(world: World) -> None:
    ingest(world, a=[(0, 1.0)], b=[(0, 9), (5, 9), (10, 9)])  # pending at 0, firing at 10
    ingest(world, a=[(10, 90.0), (15, 90.0), (35, 90.0)], b=[(15, 1)])
    detected = contexts(world)
    assert {second: states for second, (_, states, _) in detected.items()} == {
        10: [("Cause", "pending", "north")],  # it fires at the event, not before it
        15: FIRING,
        35: FIRING,
    }
    assert not detected[35][0]
    # Streams pass the events and the delay; the alert ends at 30, so it is resolved at 35.
    ingest(world, a=[(300, 1.0)], b=[(300, 1)])
    world.detector.settle(include_filters=True)
    world.follow_up.run_to_end()
    settled = contexts(world)
    assert all(is_settled for is_settled, _, _ in settled.values())
    assert settled[35][1] == [*FIRING, ("Cause", "resolved", "north")]
    assert settled[15][1] == FIRING
    own = [(row["ts"], row["state"]) for row in settled[35][2]]
    times = [(START + timedelta(seconds=second)).strftime("%H:%M:%S") for second in (10, 15)]
    # Alerts of one event, each resolved at once: those of the other events of its rule.
    assert [(ts[11:19], state) for ts, state in own] == [
        (times[0], "firing"),
        (times[0], "resolved"),
        (times[1], "firing"),
        (times[1], "resolved"),
    ]
    assert find_past(world) == {second: states for second, (_, states, _) in settled.items()}


def test_a_recall_has_the_alerts_before_its_event(world: World) -> None:
    ingest(world, a=[(0, 1.0)], b=[(0, 9), (5, 9), (10, 9)])
    (rule,) = (rule for rule in world.detector.active_rules if rule.name == "g/Effect")
    question = build_questions(rule.definition, rule.tables)["before"]
    assert isinstance(question, SqlQuestion)
    schemas = [stream_schema(*item) for item in world.settings.streams.items()]
    tables = TablesOfRecalls(world.connection, {}.__getitem__, ())
    engine = SparkEngine(world.spark.newSession, Reader(world.root, schemas), tables.table)
    template = Template(question)
    found = {}
    for second in (0, 5, 11):
        event = RecallEvent(UUID(int=second), _start() + second * 1_000_000, {}, {"host": "h"})
        partials = engine.compute_partial(template, [(event, Piece(0, None, event.ts))], {})
        rows = [row for partial in partials.values() for row in partial.to_pylist()]
        found[second] = sorted((row["alert"], row["state"], row["n"]) for row in rows)
    assert found == {
        0: [],  # it is pending at the event, not before it
        5: [("Cause", "pending", 1)],
        11: [("Cause", "firing", 1), ("Cause", "pending", 1)],
    }


def test_a_recall_is_read_again_if_alerts_before_its_event_change(world: World) -> None:
    ingest(world, a=[(0, 1.0)], b=[(0, 9), (5, 9), (10, 9)])
    ingest(world, a=[(10, 90.0), (15, 90.0), (35, 90.0)], b=[(15, 1)])
    known = AlertStream(world.connection).read_valid()
    tasks = world.connection.execute(
        "SELECT id, (event->>'ts')::bigint FROM tasks WHERE recall = 'before' ORDER BY 2"
    ).fetchall()
    assert [(ts - _start()) // 1_000_000 for _, ts in tasks] == [10, 15, 35]
    for task, ts in tasks:
        seen = [[0, 1, {"a": 2, "alerts": digest_valid_rows(known, [ts])[0]}], [1, 2, None]]
        world.connection.execute(
            "UPDATE tasks SET state = 'done', next = 2, revision = 1, seen = %s WHERE id = %s",
            (Jsonb(seen), task),
        )

    def states() -> list[tuple[Any, ...]]:
        return world.connection.execute(
            "SELECT t.state, t.seen = '[]', u.task IS NOT NULL FROM tasks t"
            " LEFT JOIN unsettled_reads u ON u.task = t.id WHERE t.recall = 'before'"
            " ORDER BY t.event->>'ts'"
        ).fetchall()

    assert states() == [("done", False, True)] * 3
    ingest(world, a=[(300, 1.0)], b=[(300, 1)])
    world.detector.settle(include_filters=True)
    world.follow_up.run_to_end()
    # The alert of the event at 10 ended at once, that of the other rule at 30.
    assert states() == [("done", False, False), ("waiting", True, False), ("waiting", True, False)]


def find_past(world: World) -> dict[int, list[Any]]:
    """The contexts that the past of the rule has, from the archive and the stored alerts."""
    schemas = [stream_schema(*item) for item in world.settings.streams.items()]
    finder = PastFinder(
        world.spark.newSession(),
        Reader(world.root, schemas),
        RelationVersions({}.__getitem__, frozenset(), alerts=AlertStream(world.connection)),
    )
    (rule,) = (rule for rule in world.detector.active_rules if rule.name == "g/Effect")
    rows = world.connection.execute(
        "SELECT eid, ts, key, attributes FROM events WHERE rule = 'g/Effect'"
    ).fetchall()
    events = [
        RecallEvent(eid, int((ts - START).total_seconds() * 1_000_000) + _start(), key, attributes)
        for eid, ts, key, attributes in rows
    ]
    found = finder.compute_contexts(
        ActiveRule.of_workspace(rule.definition, world.settings), events
    )
    result = {}
    for event in events:
        others = found[event.eid].contexts["others"]
        second = (event.ts - _start()) // 1_000_000
        result[second] = sorted((row["alert"], row["state"], row["site"]) for row in others)
    return result


CORPUS_RULE = """
  - alert: {alert}
    expr: SELECT host, n, ts, v FROM a WHERE v > 70
    key: [host]
    id: [host, n]
    for: 10s
    keep_firing_for: 20s
    context: {{own: {{sql: SELECT event.n AS n}}}}
    recall: {{alike: {{similar: {{k: 3}}, corpus: {corpus}}}}}
"""
CORPUS = (
    "groups:\n- name: g\n  rules:"
    + CORPUS_RULE.format(alert="Fired", corpus="fired")
    + CORPUS_RULE.format(alert="All", corpus="events")
)


def test_a_corpus_may_have_all_events(
    spark: SparkSession,
    connection: Connection[Any],
    workspace_settings: Settings,
    tmp_path: Path,
) -> None:
    rules = definitions(spark, workspace_settings, CORPUS)
    world = World(spark, connection, workspace_settings, rules, tmp_path)
    # An alert that never fires, then one that fires with its second event.
    ingest(world, a=[(0, 90.0), (60, 90.0), (70, 90.0), (75, 90.0)], b=[])
    ingest(world, a=[(300, 1.0)], b=[(300, 1)])
    world.detector.settle(include_filters=True)
    world.follow_up.run_to_end()
    rows = connection.execute(
        "SELECT rule, ts, corpus FROM contexts WHERE corpus IS NOT NULL ORDER BY rule, corpus"
    ).fetchall()
    seconds: dict[str, list[int]] = {}
    for rule, ts, _ in rows:
        seconds.setdefault(rule, []).append(int((ts - START).total_seconds()))
    assert seconds == {"g/All": [0, 60, 70, 75], "g/Fired": [60]}
    tasks = connection.execute(
        "SELECT rule, count(*) FROM tasks GROUP BY rule ORDER BY rule"
    ).fetchall()
    assert tasks == [("g/All", 1), ("g/Fired", 1)], "recalls are about the alert that fired"
    past = {
        rule.name.partition("/")[2]: [
            (event.ts - _start()) // 1_000_000 for event in find_corpus(world, rule)
        ]
        for rule in world.detector.active_rules
    }
    assert past == {"All": [0, 60, 70, 75], "Fired": [60]}


def find_corpus(world: World, rule: ActiveRule) -> list[Any]:
    """The corpus of a rule that was added after all of its events."""
    schemas = [stream_schema(*item) for item in world.settings.streams.items()]
    relations = RelationVersions({}.__getitem__, frozenset())
    finder = PastFinder(world.spark.newSession(), Reader(world.root, schemas), relations)
    whole = TimeRange(_start(), _start() + 1_000_000_000)
    task = ViewTask(rule.name, rule.version, 1, whole, whole.end or 0, is_requested=False)
    timing = make_alerting_rule(rule.definition).timing
    return list(decide(finder.find_events(rule, whole), task, timing, rule.definition).corpus)


def _start() -> int:
    return int(START.timestamp()) * 1_000_000
