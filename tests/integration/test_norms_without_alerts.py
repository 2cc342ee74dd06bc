"""Norms leave out the spans of earlier alerts: what was known of them at the time of the event."""

import json
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from psycopg import Connection
from pyspark.sql import SparkSession

from archiver.times import to_micros
from moirae.backtest.run import Backtest, find_notes, plan_backtest
from moirae.config.settings import Settings
from moirae.evaluation.plan import ActiveRule
from moirae.incidents import GroupingPolicy, IncidentEngine
from moirae.incidents.changes import NearbyChanges
from moirae.runtime import database
from moirae.why import explain_alert
from recall.replay import SqlReplayer, replay
from sql.alerts import IncidentGateway
from tests.integration.history import no_relations, no_spark, run_until
from tests.integration.test_hybrid_contexts import ingest, recalls
from tests.integration.test_rules_over_recalls import follow, open_tasks, processes
from tests.property.test_backtest_is_live import open_world_archive
from tests.property.world import START, World, definitions, workspace

pytestmark = pytest.mark.services

RULES = """
groups:
- name: g
  rules:
  - alert: High
    expr: SELECT host, n, ts, v FROM a WHERE v > 70
    id: [host, n]
    key: [host]
    keep_firing_for: 15m
    recall:
      norm: {normal: {of: v, by: [host], season: none, range: 30d}}
      all: {normal: {of: v, by: [host], season: none, range: 30d, exclude: none}}
      fixed: {normal: {of: v, by: [host], season: none, range: 30d, exclude: incidents}}
"""
DAY = 86_400
INCIDENTS = (3 * DAY, 6 * DAY, 9 * DAY)


@pytest.fixture(scope="module")
def workspace_settings(public_folder: Path) -> Settings:
    return workspace(public_folder)


@pytest.fixture(scope="module")
def connection(workspace_settings: Settings) -> Iterator[Connection[Any]]:
    with database.connect_database(workspace_settings, "norms") as new_connection:
        yield new_connection


@pytest.fixture
def world(
    spark: SparkSession, connection: Connection[Any], workspace_settings: Settings, tmp_path: Path
) -> World:
    rules = definitions(spark, workspace_settings, RULES)
    return World(spark, connection, workspace_settings, rules, tmp_path)


def _answer(world: World, second: int) -> dict[str, dict[str, Any]]:
    """The only row of each final answer about the event of a time, by recall."""
    with recalls(world) as manager:

        def is_done() -> bool:
            row = world.connection.execute(
                "SELECT count(*) FROM tasks WHERE state NOT IN ('done', 'failed')"
            ).fetchone()
            return row == (0,)

        run_until(manager, is_done)
    row = world.connection.execute(
        "SELECT eid FROM events WHERE ts = %s", (START + timedelta(seconds=second),)
    ).fetchone()
    assert row is not None
    rows: dict[str, dict[str, Any]] = {}
    for recall, answer in world.connection.execute(
        "SELECT t.recall, r.answer FROM tasks t JOIN revisions r ON r.task = t.id AND r.number = t.revision "
        "WHERE t.eid = %s",
        (row[0],),
    ).fetchall():
        rows[recall] = answer[0]
    return rows


def _check_repeat(world: World, second: int) -> None:
    """Answers are computed again from the archive and what is stored, and are the same."""
    row = world.connection.execute(
        "SELECT eid FROM events WHERE ts = %s", (START + timedelta(seconds=second),)
    ).fetchone()
    assert row is not None
    schemas = [table.schema for table in world.archive.tables.values()]
    replayer = SqlReplayer(world.connection, world.root, schemas, no_spark, no_relations)
    repeated = list(replay(world.connection, row[0], {"sql": replayer}))
    assert {entry.recall for entry in repeated} == {"norm", "all", "fixed"}
    assert all(entry.equal for entry in repeated)


def _make_rows() -> list[tuple[int, str, float]]:
    """Values around 50, and an hour at 90 on three days."""
    rows = []
    for minute in range(0, 9 * 1_440 + 10, 10):
        second = 60 * minute
        is_high = any(start <= second < start + 3_600 for start in INCIDENTS)
        rows.append((second, "h1", 90.0 if is_high else 48.0 + minute % 50 / 10))
    return rows


@pytest.mark.slow
def test_past_alerts_are_not_normal(world: World) -> None:
    """The third incident is as abnormal as the first."""
    rows = _make_rows()
    first = [row for row in rows if row[0] < INCIDENTS[2]]
    ingest(world, *first)
    # What operators said of the first alert before the third event, and of the second after it.
    alerts = world.connection.execute("SELECT id FROM alerts ORDER BY starts_at").fetchall()
    assert len(alerts) == 2
    engine = IncidentEngine(world.connection, GroupingPolicy(), 1, lambda *_: NearbyChanges())
    engine.run_to_end()
    # They were two incidents at the time of the third event, whatever people have decided since.
    incidents = world.connection.execute("SELECT DISTINCT incident FROM incident_alerts").fetchall()
    IncidentGateway(world.connection).merge(incidents[0][0], incidents[1][0], "one failure")
    for (alert,), days in zip(alerts, (8, 10), strict=True):
        world.connection.execute(
            "INSERT INTO alert_notes (alert_id, kind, author, text, effect, at) "
            "VALUES (%s, 'resolution', 'ops', 'load test', 'no action needed', %s)",
            (alert, START + timedelta(days=days)),
        )
    ingest(world, *(row for row in rows if row[0] >= INCIDENTS[2]))
    answers = _answer(world, INCIDENTS[2])
    norm = answers["norm"]
    # The first needed no action, so it counts again; of the second that was not known yet.
    assert (norm["excluded"], norm["counted_again"]) == (1, 1)
    assert "1 past alert counts again (resolved as no action needed)" in norm["says"]
    assert (answers["all"]["excluded"], answers["all"]["n"]) == (0, 9 * 144)
    assert norm["n"] == 9 * 144 - 7  # an hour, and the row by which it is over
    assert (answers["fixed"]["excluded"], answers["fixed"]["counted_again"]) == (0, 1)
    assert "1 past incident counts again" in answers["fixed"]["says"]
    _check_repeat(world, INCIDENTS[2])
    second_answer = _answer(world, INCIDENTS[1])["norm"]
    assert (second_answer["verdict"], second_answer["excluded"]) == ("higher", 1)
    assert second_answer["says"].startswith("higher than ever; seen once in 6 days, with an alert")


def _make_conditional_rules() -> str:
    """The rule, once for each way to leave out alerts, with a condition on the norm's verdict."""
    ((rule,),) = [group["rules"] for group in yaml.safe_load(RULES)["groups"]]
    rules = []
    for exclude in ("alerts", "none"):
        norm = {"of": "v", "by": ["host"], "season": "none", "range": "30d", "exclude": exclude}
        keys = {"recall": {"norm": {"normal": norm}}, "where": "norm.verdict <> 'usual'"}
        rules.append({**rule, **keys, "alert": exclude})
    return json.dumps({"groups": [{"name": "g", "rules": rules}]})


def _decide_live(world: World) -> None:
    """Answer the recalls of all alerts so far, and let `where` decide."""
    with processes(world) as (manager, runner):
        while open_tasks(world):
            manager.run_once()
            manager.wait_for_query()
            runner.run_once()
            runner.end_events()
            follow(world)


@pytest.mark.slow
def test_backtest_decides_by_norms_as_live_detection_has(
    world: World, spark: SparkSession, workspace_settings: Settings, tmp_path: Path
) -> None:
    """Of three equal incidents, the later ones are usual only where the first is not left out."""
    rules = definitions(spark, workspace_settings, _make_conditional_rules())
    world = World(spark, world.connection, workspace_settings, rules, tmp_path / "conditional")
    rows = _make_rows()
    rows += [(INCIDENTS[2] + 600 * number, "h1", 50.0) for number in range(1, 7)]  # it is over
    for start, end in pairwise((0, *(incident + 1 for incident in INCIDENTS), 10 * DAY)):
        ingest(world, *(row for row in rows if start <= row[0] < end))
        _decide_live(world)
    ingest(world, (INCIDENTS[2] + 7_200, "h1", 50.0))  # settles the rules
    live: dict[str, list[bool]] = {"alerts": [], "none": []}
    for rule, history in world.connection.execute(
        "SELECT split_part(rule, '/', 2), history FROM alerts ORDER BY starts_at"
    ).fetchall():
        live[rule].append(history == "withdrawn")
    archive = open_world_archive(world)
    tested: dict[str, list[bool]] = {}
    explained: dict[str, tuple[str, int]] = {}
    for definition in rules:
        rule = ActiveRule.of_workspace(definition, workspace_settings)
        plan = plan_backtest(rule, archive, lambda newest: 0, None)
        assert plan is not None
        test = Backtest(rule, archive, plan)
        for _ in test.evaluate():
            pass
        exclude = definition.name.split("/")[1]
        tested[exclude] = [alert.is_hidden for alert in test.list_alerts()]
        assert any("alerts of the range only" in note for note in find_notes(rule)) is (
            exclude == "alerts"
        )
        explanation = explain_alert(
            rule, archive, {"host": "h1"}, to_micros(START) + INCIDENTS[2] * 1_000_000
        )
        assert explanation.where is not None
        (norm,) = explanation.where.answers["norm"]
        explained[exclude] = explanation.verdict, norm["excluded"]
    assert explained == {"alerts": ("firing", 2), "none": ("hidden", 0)}
    assert tested == {"alerts": [False, False, False], "none": [False, True, True]}
    assert live == tested
