"""The history of a rule equals what live detection would have found: events, alerts, contexts, E and
C_k; for any chunks, in any order, and after any crash.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg import Connection
from pyspark.sql import SparkSession

from moirae.config.settings import Settings
from moirae.config.table_schemas import stream_schema
from moirae.deployments.registry import RuleRegistry
from moirae.history.builder import HistoryBuilder
from moirae.history.finder import RelationVersions
from moirae.history.store import ViewStore
from moirae.live.relations import Relations
from moirae.rules.definition import Definition
from moirae.runtime import database
from recall.corpora import Corpora
from recall.requests import SimilarQuestion
from recall.similarity.comparison import Comparison
from recall.similarity.events import make_corpus_event
from recall.similarity.measures import MEASURES
from recall.similarity.ranking import TopK
from tests.progress import Progress
from tests.property.world import START, Plan, World, definitions, workspace

pytestmark = pytest.mark.services

RULES = """
groups:
- name: g
  derived:
  - stream: load
    expr: SELECT host, window.end AS ts, avg(v) AS v FROM a GROUP BY host, window(ts, '1 minute')
  rules:
  - alert: Filter
    expr: SELECT host, n, ts, v * 2 AS double FROM a WHERE v > 60
    id: [host, n]
    key: [host]
    for: 40s
    keep_firing_for: 1m
    delay: 20s
    context:
      near: {sql: "SELECT w FROM b WHERE host = event.host", within: 1m}
      site: {sql: "SELECT site FROM hosts WHERE host = event.host"}
    recall: {alike: {similar: {k: 3}}}
  - alert: Every
    expr: SELECT host, n, ts FROM a WHERE v > 40
    id: [host, n]
    key: [host]
    for: 30s
    keep_firing_for: 45s
    recall_on: every
    context: {own: {sql: SELECT event.n AS n}}
    recall: {alike: {similar: {k: 3}}}
  - alert: End
    expr: >-
      SELECT host, window.end AS ts, count(*) AS c FROM a
      GROUP BY host, window(ts, '2 minutes', '1 minute') HAVING count(*) > 1
    for: 1m
    keep_firing_for: 90s
    context: {loads: {sql: "SELECT CAST(v AS int) AS v FROM load WHERE host = event.host", within: 3m}}
    recall: {alike: {similar: {k: 3}}}
  - alert: Site
    expr: SELECT a.host, a.n, a.ts, h.site FROM a JOIN hosts h ON a.host = h.host WHERE a.v > 30
    id: [host, n]
    key: [site]
    keep_firing_for: 1m
    context: {own: {sql: SELECT event.site AS site}}
    recall: {alike: {similar: {k: 3}}}
  - alert: Silent
    absent: 2m
    stream: b
    key: [host]
    keep_firing_for: 1m
    context: {near: {sql: "SELECT n FROM a WHERE host = event.host", within: 2m}}
    recall: {alike: {similar: {k: 3}}}
"""
CONTEXTS = {
    "Filter": ("near", "site"),
    "Every": ("own",),
    "End": ("loads",),
    "Site": ("own",),
    "Silent": ("near",),
}

Make = Callable[[bool], World]


class Killed(BaseException):
    """Raised where the process is killed."""


@pytest.fixture(scope="module")
def workspace_settings(public_folder: Any) -> Settings:
    return workspace(public_folder)


@pytest.fixture(scope="module")
def connections(workspace_settings: Settings) -> Iterator[list[Connection[Any]]]:
    new_connections = [
        database.connect_database(workspace_settings, f"properties {number}") for number in range(3)
    ]
    yield new_connections
    for connection in new_connections:
        connection.close()


@pytest.fixture(scope="module")
def rules(spark: SparkSession, workspace_settings: Settings) -> list[Definition]:
    return definitions(spark, workspace_settings, RULES)


@pytest.fixture(scope="module")
def make(
    spark: SparkSession,
    connections: list[Connection[Any]],
    workspace_settings: Settings,
    rules: list[Definition],
    tmp_path_factory: pytest.TempPathFactory,
) -> Make:
    """Makes new worlds, with rules from the start or without."""
    return lambda with_rules: World(
        spark,
        connections[0],
        workspace_settings,
        rules if with_rules else [],
        tmp_path_factory.mktemp("archive"),
    )


def _drive(
    world: World,
    plan: Plan,
    rng: random.Random,
    late: list[Definition],
    late_batch: int,
    ahead: bool,
) -> None:
    """All of the plan; rules that come late are added before a batch.

    `ahead`: some rows are ahead of the clock.
    """
    for number, batch in enumerate(plan.batches):
        if ahead:
            world.now = plan.clocks[number]
        if number == late_batch and late:
            RuleRegistry(world.connection).apply(late)
            world.detector.reload(START)
        world.ingest(batch, at_once=rng.random() < 0.5)
        if ahead and number % 2:
            world.follow_rows_ahead()
    world.end_input()
    world.follow_up.run_to_end()


def _make_views(
    world: World,
    connections: list[Connection[Any]],
    workspace_settings: Settings,
    rules: list[Definition],
    rng: random.Random,
) -> int:
    """Some chunks are old and found because a recall asks, the others by themselves; some are
    killed on the way.
    """
    chunks = [chunk.id for chunk in world.archive.chunks]
    old = [chunk for chunk in chunks if rng.random() < 0.5]
    world.connection.execute("UPDATE chunks SET state = 'old' WHERE id = ANY(%s)", (old,))
    pending_recalls = [(rule, chunk) for rule in rules for chunk in old]
    rng.shuffle(pending_recalls)
    count = 0
    spark = world.spark.newSession()
    views = _views(world, connections, workspace_settings)
    while True:
        by_itself = not pending_recalls or rng.random() < 0.3
        if by_itself:
            work = views.next_task()
        else:
            rule, chunk = pending_recalls.pop()
            work = views.required_task(rule.name, rule.version, chunk)
        if work is None and by_itself and not pending_recalls:
            return count
        if work is not None:
            count += 1
            try:
                with _kill_during_store(rng) if rng.random() < 0.2 else nullcontext():
                    views.execute(work, lambda: spark)
            except Killed:
                views = _views(world, connections, workspace_settings)
                if work.is_requested:
                    pending_recalls.append(
                        next((rule, work.chunk) for rule in rules if rule.name == work.rule)
                    )
        elif by_itself:
            views = _views(
                world, connections, workspace_settings
            )  # one that has found nothing looks again after a while


def _kill_during_store(rng: random.Random) -> Any:
    """The process falls before or after something was stored."""
    name = rng.choice(["put_events", "put_contexts", "enter_corpus", "mark_complete"])
    store, after = getattr(ViewStore, name), rng.random() < 0.5

    def kill(*values: Any) -> None:
        if after:
            store(*values)
        raise Killed

    return patch.object(ViewStore, name, kill)


def _views(
    world: World, connections: list[Connection[Any]], workspace_settings: Settings
) -> HistoryBuilder:
    schemas = [
        stream_schema(name, declared) for name, declared in workspace_settings.streams.items()
    ]
    related = RelationVersions(
        Relations(connections[1], workspace_settings.relations).table,
        frozenset(workspace_settings.relations),
    )
    return HistoryBuilder(connections[1], connections[2], world.root, schemas, related)


def _stored_past(world: World, rules: list[Definition]) -> dict[str, Any]:
    """Events, corpora with their contexts, E and C_k at each of their events."""
    execute = world.connection.execute
    events = execute(
        "SELECT rule, eid, ts, attributes FROM events WHERE settled ORDER BY rule, ts, eid"
    ).fetchall()
    query = "SELECT rule, eid, contexts, surroundings FROM contexts WHERE corpus IS NOT NULL ORDER BY rule, ts, eid"
    counted = {}
    corpora = Corpora(world.connection, world.root)
    for rule in rules:
        question = SimilarQuestion(
            None, 1.0, "newest", CONTEXTS[rule.rule.spec.alert], 3, "tfidf", 0
        )
        index = corpora.load_index(rule.name, rule.version, question)
        rows = execute(
            "SELECT eid, (extract(epoch FROM ts) * 1000000)::bigint, contexts FROM contexts "
            "WHERE rule = %s AND corpus IS NOT NULL ORDER BY ts, eid",
            (rule.name,),
        )
        for eid, ts, contexts in rows:
            event = make_corpus_event(
                ts, str(eid), index.last_sequence, contexts, question.contexts, index.numeric
            )
            counts = index.full_counts(
                Comparison(
                    event,
                    index.pin_counts(event),
                    MEASURES["tfidf"],
                    TopK(1),
                    ts,
                    index.last_sequence,
                )
            )
            words = index.vocabulary.decode_terms(range(len(index.vocabulary)))
            term_counts = {
                word: n for word, n in zip(words, counts.document_frequencies, strict=False) if n
            }
            counted[rule.name, eid] = (counts.event_count, term_counts)
    return {"events": events, "corpus": execute(query).fetchall(), "counts": counted}


def _alerts(world: World, before: Any) -> list[Any]:
    """Alerts that have fired and were over before some event times of their rules."""
    rows = world.connection.execute(
        "SELECT rule, fingerprint, eid, starts_at, fired_at, last_at, ends_at, events FROM alerts "
        "WHERE state = 'resolved' ORDER BY 1, 2, 4"
    )
    return [
        row
        for row in rows
        if row[0] in before and (before[row[0]] is None or row[6] < before[row[0]])
    ]


def _property(
    make: Make,
    connections: list[Connection[Any]],
    workspace_settings: Settings,
    rules: list[Definition],
    seed: int,
    ahead: bool,
) -> None:
    plan, rng = Plan.draw(seed), random.Random(seed)
    world = make(True)
    _drive(world, plan, rng, [], 0, ahead)
    # PostgreSQL is one, so what live has found is kept before the next world is made.
    live, ended = _stored_past(world, rules), _alerts(world, {rule.name: None for rule in rules})
    late = make(False)
    _drive(late, plan, rng, rules, rng.randrange(1, len(plan.batches)), ahead)
    count = _make_views(late, connections, workspace_settings, rules, rng)
    past = _stored_past(late, rules)
    assert past["events"] == live["events"]
    assert past["corpus"] == live["corpus"]
    assert past["counts"] == live["counts"]
    starts = dict(late.connection.execute("SELECT rule, live_from FROM deployments").fetchall())
    starts = {rule: start for rule, start in starts.items() if start is not None}
    assert _alerts(late, starts) == [
        row for row in ended if row[0] in starts and row[6] < starts[row[0]]
    ]
    assert count or not starts
    doubled = "SELECT count(*) - count(DISTINCT corpus) FROM contexts WHERE corpus IS NOT NULL"
    assert late.connection.execute(doubled).fetchone() == (0,)
    _given_up(late, connections, workspace_settings)


def _given_up(
    world: World, connections: list[Connection[Any]], workspace_settings: Settings
) -> None:
    """A view that has failed too often is not wanted any more, and its chunk known to be lost."""
    row = world.connection.execute(
        "UPDATE views SET upto = NULL, tries = 3 WHERE ctid = (SELECT min(ctid) FROM views) "
        "RETURNING rule, version, chunk"
    ).fetchone()
    if row is not None:
        rule, version, chunk = row
        views = _views(world, connections, workspace_settings)
        assert views.required_task(rule, version, chunk) is None
        assert views.abandoned_chunks(rule, version) == {chunk}


@pytest.mark.slow
@settings(max_examples=1)
@given(seed=st.integers(0, 10**9), ahead=st.booleans())
def test_history_equals_what_live_would_have_detected(
    make: Make,
    connections: list[Connection[Any]],
    workspace_settings: Settings,
    rules: list[Definition],
    seed: int,
    ahead: bool,
) -> None:
    _property(make, connections, workspace_settings, rules, seed, ahead)


PROGRESS = Progress("histories", 1)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@settings(max_examples=40)
@given(seed=st.integers(0, 10**9), ahead=st.booleans())
def test_history_equals_what_live_would_have_detected_at_length(
    make: Make,
    connections: list[Connection[Any]],
    workspace_settings: Settings,
    rules: list[Definition],
    seed: int,
    ahead: bool,
) -> None:
    _property(make, connections, workspace_settings, rules, seed, ahead)
    PROGRESS.step()
