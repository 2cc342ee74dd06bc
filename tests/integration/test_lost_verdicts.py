"""A row for which a regular expression needs too many steps is lost to its rule, and to no other."""

import json
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection
from pyspark.sql import SparkSession

from archiver.formats import JSONL
from archiver.ingest.writer import SourceUnit
from archiver.read import Reader
from archiver.time_range import TimeRange
from archiver.times import to_micros
from moirae.config.settings import Settings, load_settings
from moirae.evaluation.loss_rates import WINDOW
from moirae.history.finder import PastFinder, RelationVersions
from moirae.inspect import health, status
from moirae.live.losing_rules import LosingRulesMonitor
from moirae.rules.checks.check import check_rules
from moirae.rules.parse import parse_rules
from moirae.runtime import database
from sql.alerts import AlertGateway
from sql.rules import DeploymentGateway, LostVerdictGateway
from tests.property.world import START, WORKSPACE, World
from tests.workspaces import write_workspace

pytestmark = pytest.mark.services

RULES = """
groups:
- name: g
  rules:
  - alert: Good
    expr: SELECT host, n, ts FROM a WHERE v > 50
    key: [host]
    id: [n]
  - alert: Pattern
    expr: SELECT host, n, ts FROM a WHERE host RLIKE '^(x+x+)+y(?!z)'
    key: [host]
    id: [n]
  - alert: Windows
    expr: >-
      SELECT window.end AS ts, count(*) AS c FROM a WHERE host RLIKE '^(x+x+)+y(?!z)'
      GROUP BY window(ts, '1 minute')
    key: [c]
"""
LIMITS = "limits: {lost: {share: 0.05, rows: 3}}\n"
CRAFTED = "x" * 4_000  # the pattern backtracks


@pytest.fixture(scope="module")
def settings(public_folder: Path) -> Settings:
    write_workspace(public_folder, WORKSPACE + LIMITS)
    (public_folder / "hosts.csv").write_text("host,site,since\n")
    (public_folder / "inventory.csv").write_text("host\n")
    return load_settings(public_folder / "moirae.yaml", {})


@pytest.fixture(scope="module")
def connection(settings: Settings) -> Iterator[Connection[Any]]:
    with database.connect_database(settings, "losses") as new_connection:
        yield new_connection


@pytest.fixture
def world(
    spark: SparkSession, settings: Settings, connection: Connection[Any], tmp_path: Path
) -> World:
    parsed, problems = parse_rules("rules.yaml", RULES, settings.table_names)
    assert not problems
    definitions, problems = check_rules(lambda: spark, settings, parsed)
    assert not [problem for problem in problems if problem.severity == "error"]
    return World(spark, connection, settings, definitions, tmp_path)


def _batch(number: int, crafted: Sequence[int]) -> SourceUnit:
    """40 rows in a minute; each eighth one matches the pattern. `crafted`: these cannot be decided."""
    lines = []
    for i in range(40):
        host = CRAFTED if i in crafted else "xxxy" if i % 8 == 0 else "h"
        ts = START + timedelta(seconds=number * 60 + i)
        row = {"ts": ts.isoformat(), "host": host, "v": 100.0 * (i % 2), "n": number * 100 + i}
        lines.append(json.dumps(row).encode())
    return SourceUnit("a", f"{number}", JSONL, lambda: iter(lines))


def _numbers(connection: Connection[Any], rule: str) -> list[int]:
    query = "SELECT (attributes->>'n')::int FROM events WHERE rule = %s ORDER BY 1"
    return [number for (number,) in connection.execute(query, (rule,)).fetchall()]


def _states(connection: Connection[Any]) -> dict[str, str]:
    return {row.rule: row.state for row in DeploymentGateway(connection).list_active()}


@pytest.mark.slow
def test_row_that_cannot_be_decided_is_lost_to_its_rule_alone(
    world: World, connection: Connection[Any], spark: SparkSession
) -> None:
    world.ingest([_batch(0, [])], at_once=True)
    world.ingest([_batch(1, [9, 16])], at_once=True)
    world.ingest([_batch(2, [])], at_once=True)
    world.end_input()
    assert set(_states(connection).values()) == {"running"}
    assert len(_numbers(connection, "g/Good")) == 60
    expected = [n for batch in (0, 100, 200) for n in range(batch, batch + 40, 8) if n != 116]
    assert _numbers(connection, "g/Pattern") == expected
    counts = "SELECT attributes->>'c' FROM events WHERE rule = 'g/Windows' ORDER BY ts"
    assert connection.execute(counts).fetchall() == [("5",), ("4",), ("5",)]
    lost = LostVerdictGateway(connection).list_newest("g/Pattern", 10)
    assert sorted(row.row["n"] for row in lost) == [109, 116]
    assert {row.reason.split(" needs")[0] for row in lost} == {
        "the regular expression ^(x+x+)+y(?!z)"
    }
    assert all(len(row.row["host"]) < 1_100 for row in lost)
    for rule in world.detector.active_rules:
        _assert_past_loses_the_same_rows(world, spark, rule.name)


def _assert_past_loses_the_same_rows(world: World, spark: SparkSession, name: str) -> None:
    (rule,) = [rule for rule in world.detector.active_rules if rule.name == name]
    lost: list[Any] = []
    schemas = [table.schema for table in world.archive.tables.values()]
    finder = PastFinder(
        spark.newSession(),
        Reader(world.root, schemas),
        RelationVersions(lambda _: None, frozenset()),
        store_losses=lost.extend,
    )
    span = TimeRange(to_micros(START), to_micros(START + timedelta(minutes=4)))
    events = finder.find_events(rule, span)
    stored = {
        (row.ts, row.row["n"])
        for row in LostVerdictGateway(world.connection).list_newest(name, 100)
    }
    assert {(row.values["ts"], row.values["n"]) for row in lost} == stored
    assert len(events) == {"g/Good": 60, "g/Pattern": 14, "g/Windows": 3}[name]


@pytest.mark.slow
def test_rule_that_loses_too_many_rows_is_sampled_until_it_recovers(
    world: World, connection: Connection[Any]
) -> None:
    losses = world.detector._evaluator.losses
    monitor = LosingRulesMonitor(
        AlertGateway(connection), DeploymentGateway(connection), world.detector.resume_recovered
    )
    world.ingest([_batch(0, [])], at_once=True)
    world.ingest([_batch(1, range(20, 30))], at_once=True)
    states = _states(connection)
    assert (states["g/Good"], states["g/Pattern"]) == ("running", "quarantined")
    monitor.run_once()
    assert "g/Pattern" in {alert.key["rule"] for alert in _open_alerts(connection)}
    problems = health.list_problems(status.collect_status(connection, world.root))
    assert any("rules in quarantine: g/Pattern" in problem for problem in problems)
    # It stays in quarantine when the process starts again, and is sampled.
    world.reopen()
    losses = world.detector._evaluator.losses
    assert "g/Pattern" in losses.losing
    for number in range(2, 6):
        world.ingest([_batch(number, [])], at_once=True)
    assert losses._rates._sampled.total(_version(world, "g/Pattern"), losses._clock()) == 2
    before = _numbers(connection, "g/Pattern")
    assert max(before, default=0) < 500
    losses.losing = {name: since - WINDOW for name, since in losses.losing.items()}
    monitor = LosingRulesMonitor(
        AlertGateway(connection), DeploymentGateway(connection), world.detector.resume_recovered
    )
    monitor.run_once()
    assert _states(connection)["g/Pattern"] == "running"
    world.detector.reload(START)
    world.end_input()
    crafted = set(range(120, 130))
    expected = [
        n for batch in range(6) for n in range(batch * 100, batch * 100 + 40, 8) if n not in crafted
    ]
    assert _numbers(connection, "g/Pattern") == expected
    assert set(_states(connection).values()) == {"running"}
    monitor.run_once()
    assert not _open_alerts(connection)


def _open_alerts(connection: Connection[Any]) -> list[Any]:
    return AlertGateway(connection).list_open("moirae/RuleLosesVerdicts")


def _version(world: World, name: str) -> Any:
    (rule,) = [rule for rule in world.detector._active_rules.sampled_rules if rule.name == name]
    return rule.rule_version
