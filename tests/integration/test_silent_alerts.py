"""Alerts whose data vanish: why they end, and those that are held until data return."""

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

pytestmark = [pytest.mark.services, pytest.mark.slow]

RULES = """
groups:
- name: g
  rules:
  - {alert: Plain, expr: "SELECT ts, host, v FROM a WHERE v > 50", keep_firing_for: 1m}
  - alert: Held
    expr: SELECT ts, host, v FROM a WHERE v > 50
    keep_firing_for: 1m
    on_silence: hold
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


def alerts(world: World) -> list[tuple[Any, ...]]:
    query = (
        "SELECT rule, key->>'host', state, extract(epoch FROM ends_at - %s)::int, end_reason"
        " FROM alerts ORDER BY rule, 2, starts_at"
    )
    return world.connection.execute(query, (START,)).fetchall()


def test_alerts_whose_data_vanish_end_for_that_reason_or_are_held(world: World) -> None:
    ingest(world, (0, "dead", 90.0), (0, "calm", 90.0))
    ingest(world, (30, "calm", 10.0))
    ingest(world, (200, "calm", 10.0))
    assert alerts(world) == [
        ("g/Held", "calm", "resolved", 60, "ended"),
        ("g/Held", "dead", "firing", None, None),
        ("g/Plain", "calm", "resolved", 60, "ended"),
        ("g/Plain", "dead", "resolved", 60, "no_data"),
    ]
    world.reopen()
    ingest(world, (400, "dead", 20.0))
    ingest(world, (600, "calm", 10.0))
    assert alerts(world)[1] == ("g/Held", "dead", "resolved", 400, "ended")


def test_hold_is_refused_for_computed_keys(
    spark: SparkSession, workspace_settings: Settings
) -> None:
    text = RULES.replace("SELECT ts, host, v", "SELECT ts, upper(host) AS host, v")
    rules, problems = parse_rules("rules.yaml", text, workspace_settings.table_names)
    assert not problems
    checked, problems = check_rules(lambda: spark, workspace_settings, rules)
    assert [definition.name for definition in checked] == ["g/Plain"]
    assert "on_silence: hold needs a key of plain columns" in problems[0].message
