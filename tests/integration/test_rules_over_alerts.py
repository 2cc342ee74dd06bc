"""Event queries that read alerts, and events that no query computes: detected, corrected, settled."""

import json
from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from archiver.formats import JSONL
from archiver.ingest.source_units import SourceUnit
from moirae.config.settings import Settings
from moirae.rules.checks.check import check_rules
from moirae.rules.parse import parse_rules
from tests.property.world import START, World

pytestmark = pytest.mark.services

RULES = """
groups:
- name: g
  derived:
  - stream: fired
    expr: SELECT ts, alert, key['host'] AS host FROM alerts WHERE state = 'firing' AND rule = 'g/High'
  rules:
  - alert: Page
    expr: SELECT ts, host, alert FROM fired WHERE host <> 'h9'
    keep_firing_for: 0s
  - alert: High
    expr: SELECT host, ts, v FROM a WHERE v > 70
    key: [host]
    for: 10s
    keep_firing_for: 20s
    labels: {site: north}
  - alert: Storm
    expr: >-
      SELECT window.end AS ts, count(*) AS n, max(a.labels['site']) AS site FROM alerts a
      WHERE a.rule IN ('g/High', 'g/Page') AND a.state = 'firing' GROUP BY window(a.ts, '1 minute')
    keep_firing_for: 0s
  - alert: Silent
    absent: 1m
    stream: b
    key: [host]
    keep_firing_for: 0s
  - alert: Gone
    expr: SELECT ts, host FROM events.Silent
    keep_firing_for: 0s
"""


def ingest(world: World, stream: str, *rows: tuple[int, str, float]) -> None:
    """A batch of rows: second, host, value; the alerts that follow are detected with it."""
    lines = []
    for second, host, value in rows:
        ts = (START + timedelta(seconds=second)).isoformat()
        row: dict[str, Any] = {"ts": ts, "host": host, "v": value, "n": second}
        if stream == "b":
            row = {"at": ts, "host": host, "w": int(value)}
        lines.append(json.dumps(row).encode())
    world.ingest([SourceUnit(stream, f"{rows[0][0]}{stream}", JSONL, lambda: iter(lines))], True)
    world.detector.detect_alerts()


def settle(world: World) -> None:
    """Rounds of the loop of the live process."""
    for _ in range(4):
        world.detector.detect_alerts()
        world.detector.settle(include_filters=True)


def events(world: World, alert: str, settled: bool | None = None) -> list[tuple[Any, ...]]:
    """Second and attributes of the events of an alert."""
    rows = world.connection.execute(
        "SELECT ts, attributes FROM events WHERE rule = %s"
        " AND (%s::boolean IS NULL OR settled = %s) ORDER BY ts, attributes::text",
        (f"g/{alert}", settled, settled),
    ).fetchall()
    return [((ts - START).total_seconds(), *attributes.values()) for ts, attributes in rows]


def test_alerts_flow_on_in_the_same_batch_and_settle_with_their_rules(world: World) -> None:
    ingest(world, "a", (0, "h0", 90.0), (5, "h9", 90.0), (10, "h0", 90.0))
    assert events(world, "Page") == [(10.0, "h0", "High")]
    assert events(world, "Storm", settled=False) == [(60.0, 2, "north")]
    # A row in between was late to arrive: the alert fires no earlier, a second one does.
    ingest(world, "a", (15, "h9", 90.0), (20, "h1", 90.0))
    assert events(world, "Page", settled=False) == [(10.0, "h0", "High")]
    assert events(world, "Storm", settled=False) == [(60.0, 3, "north")]
    world.reopen()
    ingest(world, "a", (30, "h1", 90.0), (31, "h1", 1.0))
    assert events(world, "Storm", settled=False) == [(60.0, 5, "north")]
    ingest(world, "a", (300, "h0", 1.0))
    ingest(world, "b", (300, "h0", 1))
    settle(world)
    assert events(world, "Page", settled=True) == [(10.0, "h0", "High"), (30.0, "h1", "High")]
    assert events(world, "Storm", settled=True) == [(60.0, 5, "north")]
    states = world.connection.execute(
        "SELECT DISTINCT state FROM alerts WHERE rule IN ('g/Page', 'g/Storm')"
    ).fetchall()
    assert states == [("resolved",)]


def test_events_of_a_rule_of_absence_are_read_as_they_are_stored(world: World) -> None:
    ingest(world, "b", (0, "h0", 1), (1, "h1", 1))
    ingest(world, "b", (50, "h1", 1), (100, "h1", 1))
    ingest(world, "a", (100, "h0", 1.0))
    settle(world)
    assert events(world, "Silent") == [(60.0, "h0")]
    assert events(world, "Gone") == [(60.0, "h0")]
    ingest(world, "b", (400, "h1", 1))
    ingest(world, "a", (400, "h0", 1.0))
    settle(world)
    assert events(world, "Gone", settled=True) == [(60.0, "h0"), (160.0, "h1")]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (" AND rule = 'g/High'", "", "must name the rules of these, e.g. WHERE alerts.rule IN"),
        (" AND rule = 'g/High'", " AND rule > 'g/High'", "must name the rules of these"),
        ("rule = 'g/High'", "rule = 'High'", "there is no rule 'High'; write its full name"),
        (
            "FROM a WHERE v > 70",
            "FROM (SELECT ts, 'h' AS host, 1 AS v FROM alerts WHERE rule = 'g/Page')",
            "cycle: g/High → alerts → g/Page → alerts → g/High",
        ),
        (
            "    keep_firing_for: 20s\n",
            "    context: {c: {sql: SELECT 1 AS n FROM events.Silent s, within: 1m}}\n",
            "only event queries and derived streams read the events of g/Silent",
        ),
    ],
)
def test_refused_readers_are_named(
    spark: SparkSession, workspace_settings: Settings, old: str, new: str, problem: str
) -> None:
    assert old in RULES
    text = RULES.replace(old, new)
    rules, problems = parse_rules("r.yaml", text, workspace_settings.table_names)
    assert not problems, problems
    found = [str(p) for p in check_rules(lambda: spark, workspace_settings, rules)[1]]
    assert any(problem in text for text in found), found
