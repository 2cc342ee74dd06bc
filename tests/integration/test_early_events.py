"""Events of open windows: provisional, and corrected when their window closes."""

import json
from datetime import timedelta

import pytest
from pyspark.sql import SparkSession

from archiver.formats import JSONL
from archiver.ingest.source_units import SourceUnit
from moirae.config.settings import Settings
from moirae.rules.checks.check import check_rules
from moirae.rules.parse import parse_rules
from tests.property.world import START, World

pytestmark = pytest.mark.services

BUSY = "SELECT host, window.end AS ts, avg(v) AS v FROM a GROUP BY host, window(ts, '1 minute')"
RULES = f"""
groups:
- name: g
  rules:
  - alert: Busy
    expr: {BUSY} HAVING avg(v) > 50
    early: true
    annotations: {{summary: "{{{{ event.v }}}}"}}
    recall:
      norm: {{sql: SELECT avg(x.v) AS mean FROM a x WHERE x.host = event.host, range: 1h}}
"""


def ingest(world: World, *rows: tuple[int, str, float]) -> None:
    """A batch of rows: second, host, v."""
    count = world.connection.execute("SELECT count(*) FROM units").fetchone()
    assert count is not None
    lines = []
    for number, (second, host, v) in enumerate(rows):
        ts = (START + timedelta(seconds=second)).isoformat()
        row = {"ts": ts, "host": host, "v": v, "n": 100 * count[0] + number}
        lines.append(json.dumps(row).encode())
    world.ingest([SourceUnit("a", f"u{count[0]}", JSONL, lambda: iter(lines))], at_once=True)
    world.follow_up.run()


def events(world: World) -> list[tuple[str, float, bool]]:
    query = "SELECT key->>'host', (attributes->>'v')::float8, settled FROM events ORDER BY 1, ts"
    return [tuple(row) for row in world.connection.execute(query).fetchall()]  # type: ignore[misc]


def tasks(world: World) -> list[tuple[str, float, str]]:
    query = (
        "SELECT event->'key'->>'host', (event->'attributes'->>'v')::float8, state FROM tasks"
        " ORDER BY 1"
    )
    return [tuple(row) for row in world.connection.execute(query).fetchall()]  # type: ignore[misc]


def alerts(world: World) -> list[tuple[str, str, str]]:
    query = "SELECT key->>'host', state, annotations->>'summary' FROM alerts ORDER BY 1"
    return [tuple(row) for row in world.connection.execute(query).fetchall()]  # type: ignore[misc]


def test_early_event_is_updated_until_its_window_closes(world: World) -> None:
    ingest(world, (10, "h0", 80.0))
    assert events(world) == [("h0", 80.0, False)]
    assert alerts(world) == [("h0", "provisional", "80.0")]
    assert tasks(world) == [("h0", 80.0, "waiting")]
    ingest(world, (20, "h0", 40.0))
    assert events(world) == [("h0", 60.0, False)]
    world.connection.execute("UPDATE tasks SET state = 'done', ended_at = now(), revision = 1")
    ingest(world, (95, "h1", 10.0))  # the watermark passes the end of the window
    assert events(world) == [("h0", 60.0, True)]
    assert alerts(world) == [("h0", "firing", "60.0")]
    assert tasks(world) == [("h0", 60.0, "waiting")]  # once more, over the whole window


def test_early_event_that_does_not_last_is_withdrawn(world: World) -> None:
    ingest(world, (10, "h0", 80.0))
    ingest(world, (50, "h0", 0.0))
    assert events(world) == [("h0", 80.0, False)]  # until the window closes
    ingest(world, (95, "h1", 10.0))
    assert events(world) == []
    assert alerts(world) == [("h0", "withdrawn", "80.0")]
    assert tasks(world) == [("h0", 80.0, "cancelled")]


@pytest.mark.slow
def test_early_events_are_detected_again_after_a_restart(world: World) -> None:
    ingest(world, (10, "h0", 80.0))
    world.connection.execute("DELETE FROM events")
    world.reopen()
    assert events(world) == [("h0", 80.0, False)]


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ("expr: SELECT host, ts, v FROM a", "windowed rules"),
        ("{absent: 1m, stream: b, key: [host]}", "absence has no window"),
        (f"expr: {BUSY.replace('window.end', 'max(ts)')}", "ts must be window.start or window.end"),
        (f"expr: {BUSY.replace('SELECT host', 'SELECT max(host) AS host')}", "host is computed"),
    ],
)
def test_events_that_would_change_their_identity_are_refused(
    spark: SparkSession, workspace_settings: Settings, rule: str, problem: str
) -> None:
    text = f"""
groups:
- name: g
  rules:
  - alert: R
    early: true
    {rule.strip("{}").replace(", stream", chr(10) + "    stream").replace(", key", chr(10) + "    key")}
"""
    rules, problems = parse_rules("rules.yaml", text, workspace_settings.table_names)
    assert not problems
    _, found = check_rules(lambda: spark, workspace_settings, rules)
    assert [problem in str(item) for item in found] == [True]
