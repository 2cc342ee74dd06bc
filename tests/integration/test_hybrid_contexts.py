"""Contexts that read the answers of recalls, of new and of past events."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from archiver.formats import JSONL
from archiver.ingest.source_units import SourceUnit
from archiver.read.reader import Reader
from moirae.alerts.event import Event
from moirae.config.settings import Settings
from moirae.config.table_schemas import stream_schema
from moirae.history.finder import PastFinder, RelationVersions
from moirae.inspect.past_events import load_answers
from moirae.live import follow_up
from moirae.rules.checks.check import check_rules
from moirae.rules.parse import parse_rules
from moirae.runtime import database
from recall.corpora import Corpora
from recall.engines.duckdb.engine import LocalEngine
from recall.engines.routing.partial_cache import PartialCache
from recall.engines.routing.router import EngineRouter
from recall.engines.spark.engine import SparkEngine
from recall.ledger.tasks import Ledger
from recall.worker.key_counts import KeyCounts
from recall.worker.manager import ManagerConfig, RecallManager
from sql.events import EventFilter, EventGateway
from tests.integration.history import run_until
from tests.property.world import START, World, definitions

pytestmark = pytest.mark.services

RULE = """
groups:
- name: g
  rules:
  - alert: High
    expr: SELECT host, n, ts, v FROM a WHERE v > 70
    id: [host, n]
    key: [host, n]
    context:
      place: {sql: "SELECT event.host AS host"}
      level: {sql: "SELECT CASE WHEN event.v > norm.mean THEN 'above' ELSE 'below' END AS level FROM norm"}
    recall:
      norm: {sql: SELECT avg(x.v) AS mean FROM a x WHERE x.host = event.host, RANGE}
      similar: {similar: {k: 5}}
"""
RULES = RULE.replace("RANGE", "range: 1h")


@pytest.fixture(autouse=True)
def _settled_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow_up, "_SETTLE_INTERVAL", 0.0)


@contextmanager
def recalls(world: World) -> Iterator[RecallManager]:
    """A recall process."""
    with database.connect_database(world.settings, "recall") as connection:
        schemas = [stream_schema(name, s) for name, s in world.settings.streams.items()]
        reader = Reader(world.root, schemas)
        engines = EngineRouter(
            SparkEngine(world.spark.newSession, reader, lambda _: pa.table({})),
            LocalEngine(reader),
            PartialCache(),
        )
        manager = RecallManager(
            connection,
            Ledger(connection, Ledger.acquire_lease(connection)),
            Corpora(connection, world.root),
            key_counts=KeyCounts(reader),
            config=ManagerConfig(engines=[engines], query_timeout=600.0),
        )
        try:
            yield manager
        finally:
            manager.shut_down()


def ingest(world: World, *rows: tuple[int, str, float]) -> None:
    """A batch of rows: second, host, v."""
    lines = []
    for second, host, v in rows:
        ts = (START + timedelta(seconds=second)).isoformat()
        lines.append(json.dumps({"ts": ts, "host": host, "v": v, "n": second}).encode())
    unit = SourceUnit("a", f"u{rows[0][0]}", JSONL, lambda: iter(lines))
    world.ingest([unit], at_once=True)
    world.follow_up.run()


def contexts(world: World) -> dict[int, tuple[Any, bool]]:
    """By number of the event: the rows of its context `level`, and whether it is settled."""
    query = (
        "SELECT (e.attributes->>'n')::int, c.contexts->'level', c.settled FROM contexts c"
        " JOIN events e USING (rule, version, eid)"
    )
    return {n: (rows, settled) for n, rows, settled in world.connection.execute(query).fetchall()}


def answered(world: World) -> bool:
    query = "SELECT count(*) FROM tasks WHERE state IN ('waiting', 'running')"
    return world.connection.execute(query).fetchone() == (0,)


def similar_context(world: World, n: int) -> str:
    """The state of the context that the answer about an event rests on."""
    row = world.connection.execute(
        "SELECT eid FROM events WHERE (attributes->>'n')::int = %s", (n,)
    ).fetchone()
    assert row is not None
    answers = load_answers(world.connection, row[0])
    (similar,) = [answer for answer in answers if answer.kind == "similar"]
    assert similar.coverage is not None
    return str(similar.coverage["context"])


@pytest.mark.slow
def test_context_is_settled_when_the_recall_that_it_reads_has_ended(world: World) -> None:
    ingest(world, (0, "h0", 10.0), (10, "h0", 90.0), (20, "h0", 75.0), (30, "h0", 99.0))
    ingest(world, (200, "h1", 0.0))
    assert contexts(world) == {n: ([], False) for n in (10, 20, 30)}
    with recalls(world) as manager:
        run_until(manager, lambda: answered(world))
        assert similar_context(world, 30) == "provisional"
        world.follow_up.run()
        expected = [{"level": "above"}], True
        assert contexts(world) == {10: expected, 20: expected, 30: expected}
        run_until(manager, lambda: answered(world))
    assert similar_context(world, 30) == "settled"
    hits = world.connection.execute(
        "SELECT DISTINCT ON (t.eid) jsonb_array_length(r.answer) FROM tasks t"
        " JOIN revisions r ON r.task = t.id WHERE t.recall = 'similar'"
        " ORDER BY t.eid, r.number DESC"
    ).fetchall()
    assert sorted(count for (count,) in hits) == [0, 0, 0]  # equal terms tell nothing apart


@pytest.mark.slow
def test_past_events_have_the_contexts_of_new_ones(world: World) -> None:
    ingest(world, (0, "h0", 60.0), (10, "h0", 90.0), (15, "h0", 100.0), (20, "h0", 75.0))
    ingest(world, (30, "h0", 71.0), (200, "h1", 0.0))
    with recalls(world) as manager:
        run_until(manager, lambda: answered(world))
        world.follow_up.run()
    live = contexts(world)
    assert {rows[0]["level"] for rows, _ in live.values()} == {"above", "below"}
    (rule,) = world.detector.active_rules
    schemas = [stream_schema(name, s) for name, s in world.settings.streams.items()]
    relations = RelationVersions(lambda _: pa.table({}), frozenset())
    finder = PastFinder(world.spark.newSession(), Reader(world.root, schemas), relations)
    rows = EventGateway(world.connection).list_newest(EventFilter(), limit=100)
    events = []
    for row in rows:
        micros = int(row.ts.timestamp() * 1_000_000)
        events.append(Event(row.eid, micros, row.key, "", row.attributes))
    past = finder.compute_contexts(rule, events)
    by_id: dict[UUID, int] = {row.eid: row.attributes["n"] for row in rows}
    assert {by_id[eid]: found.contexts["level"] for eid, found in past.items()} == {
        n: found for n, (found, _) in live.items()
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (RULE.replace(", RANGE", ""), "set range of the recall norm"),
        (
            RULES.replace("WHERE x.host = event.host", "JOIN level l ON l.level = x.host"),
            "cycle: level → norm → level",
        ),
        (RULES.replace("FROM norm", "FROM similar").replace("norm.mean", "1"), "SQL recalls only"),
    ],
)
def test_recalls_that_a_context_cannot_wait_for_are_refused(
    spark: SparkSession, workspace_settings: Settings, text: str, problem: str
) -> None:
    rules, problems = parse_rules("rules.yaml", text, workspace_settings.table_names)
    assert not problems
    _, found = check_rules(lambda: spark, workspace_settings, rules)
    assert any(problem in str(item) for item in found), found


@pytest.mark.slow
def test_version_covers_the_recalls_that_contexts_read(
    spark: SparkSession, workspace_settings: Settings
) -> None:
    versions = set()
    for text in (RULES, RULES.replace("1h", "2h"), RULES.replace("k: 5", "k: 6")):
        (definition,) = definitions(spark, workspace_settings, text)
        versions.add(definition.version)
    assert len(versions) == 2
