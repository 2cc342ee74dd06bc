"""One rule cannot harm another: what throws, never ends or floods is quarantined; the
others see everything.

The heavy ones, over which the process must end, are in tests/faults/test_rule_bombs.py.
"""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection
from pyspark.sql import SparkSession

from archiver.executors import SparkJobs
from archiver.formats import JSONL
from archiver.ingest.writer import SourceUnit
from archiver.time_range import TimeRange
from moirae.config.settings import Settings, load_settings
from moirae.deployments.registry import RuleRegistry
from moirae.evaluation import (
    ExecutorRules,
    LiveStreamRows,
    RuleEngines,
    RuleEvaluator,
    VerdictLosses,
)
from moirae.evaluation.revision_rows import RevisionRows
from moirae.inspect import health, status
from moirae.rules.checks.check import check_rules
from moirae.rules.definition import Definition
from moirae.rules.parse import parse_rules
from moirae.runtime import database
from recall.engines.routing import EngineChoice
from recall.errors import StatementTimeout
from sql.rules import DeploymentGateway, LostVerdictGateway, RuleErrorGateway
from tests.property.world import NOW, START, WORKSPACE, World
from tests.workspaces import write_workspace

pytestmark = pytest.mark.services

RULE = "  - alert: {name}\n    expr: {sql}\n    key: [host]\n    id: [n]\n"
GOOD = ("Good", "SELECT host, n, ts FROM a WHERE v > 50")
BAD = {
    "throws": "SELECT host, n, ts, CAST(host AS INT) AS number FROM a WHERE v > 50",
    "floods": "SELECT host, n, ts, v FROM a",
}
# Each row's long text is searched hundreds of times.
SLOW = (
    "SELECT host, n, ts FROM a WHERE CASE "
    + " ".join(f"WHEN host LIKE '%ab{number}%' THEN true" for number in range(500))
    + " ELSE false END"
)
LIMITS = "limits: {statement: 3s, matches: 20}\n"


@pytest.fixture(scope="module")
def settings(public_folder: Path) -> Settings:
    write_workspace(public_folder, WORKSPACE + LIMITS)
    (public_folder / "hosts.csv").write_text("host,site,since\n")
    (public_folder / "inventory.csv").write_text("host\n")
    return load_settings(public_folder / "moirae.yaml", {})


@pytest.fixture(scope="module")
def connection(settings: Settings) -> Iterator[Connection[Any]]:
    with database.connect_database(settings, "isolation") as new_connection:
        yield new_connection


def _rules(spark: SparkSession, settings: Settings, *rules: tuple[str, str]) -> list[Definition]:
    text = "groups:\n- name: g\n  rules:\n" + "".join(
        RULE.format(name=name, sql=sql) for name, sql in rules
    )
    parsed, problems = parse_rules("rules.yaml", text, settings.table_names)
    assert not problems
    definitions, check_problems = check_rules(lambda: spark, settings, parsed)
    assert not check_problems
    return definitions


def _batch(number: int, rows: int = 40, host: str | None = None) -> SourceUnit:
    """Half of the rows match the rule Good; in the second batch one host is not a number.

    `host`: of all rows.
    """
    lines = []
    for i in range(rows):
        ts = START + timedelta(seconds=number * 60 + i)
        number_or_name = "abc" if (number, i) == (1, 13) else str(i % 3)
        row = {
            "ts": ts.isoformat(),
            "host": host or number_or_name,
            "v": 100.0 * (i % 2),
            "n": number * 1000 + i,
        }
        lines.append(json.dumps(row).encode())
    return SourceUnit("a", f"{number}", JSONL, lambda: iter(lines))


def _drive(world: World) -> None:
    for number in range(5):
        world.ingest([_batch(number)], at_once=True)
    world.end_input()


def _good(connection: Connection[Any]) -> list[tuple[Any, ...]]:
    query = (
        "SELECT eid, ts, attributes->>'n', settled FROM events WHERE rule = 'g/Good' ORDER BY ts"
    )
    return connection.execute(query).fetchall()


@pytest.mark.slow
@pytest.mark.parametrize("bad", ["throws", "floods"])
def test_other_rules_find_every_event(
    spark: SparkSession, settings: Settings, connection: Connection[Any], tmp_path: Path, bad: str
) -> None:
    alone = World(spark, connection, settings, _rules(spark, settings, GOOD), tmp_path / "alone")
    _drive(alone)
    undisturbed = _good(connection)
    assert len(undisturbed) == 100
    definitions = _rules(spark, settings, ("Bad", BAD[bad]), GOOD)
    world = World(spark, connection, settings, definitions, tmp_path / "both")
    _drive(world)
    assert _good(connection) == undisturbed
    registry = RuleRegistry(connection)
    states = {
        deployment.rule: deployment for deployment in DeploymentGateway(connection).list_active()
    }
    assert (states["g/Good"].state, states["g/Good"].failures, states["g/Good"].error) == (
        "running",
        0,
        None,
    )
    assert states["g/Bad"].state == "quarantined"
    assert states["g/Bad"].error
    assert [rule.name for rule in world.detector.active_rules] == ["g/Good"]
    workspace_status = status.collect_status(connection, world.root)
    assert health.assess_health(workspace_status)[0] is False
    assert "g/Bad" in health.assess_health(workspace_status)[1]
    assert {error["rule"] for error in workspace_status["rule_errors"]} == {"g/Bad"}
    _check_reported_error(connection, bad)
    # The rule is still quarantined after a restart.
    world.reopen()
    assert [rule.name for rule in world.detector.active_rules] == ["g/Good"]
    assert registry.resume(["g/Bad", "g/Good"]) == ["g/Bad"]
    world.detector.reload(START)
    assert len(world.detector.active_rules) == 2 or bad != "floods"


@pytest.mark.slow
def test_rule_that_is_slow_over_many_rows_is_evaluated_in_parts(
    spark: SparkSession, settings: Settings, connection: Connection[Any], tmp_path: Path
) -> None:
    """By the time that tasks of Spark measure. No row alone exceeds the limit."""
    definitions = _rules(spark, settings, ("Slow", SLOW), GOOD)
    world = World(spark, connection, settings, definitions, tmp_path)
    world.archive.ingest([_batch(0, rows=400, host="a" * 10_000)], NOW)
    table = world.archive.tables["a"]
    evaluator = RuleEvaluator(
        rows=LiveStreamRows(spark, world.archive, RevisionRows(connection, world.root)),
        guard=world.guard,
        losses=VerdictLosses(connection, world.guard.loss_limits),
        columns={"a": table.schema.columns},
        relations={},
        engines=RuleEngines(
            EngineChoice("spark"), ExecutorRules(SparkJobs(spark.sparkContext), time_limit=0.05)
        ),
    )
    rows = evaluator._rows.find_files("a", table.data_files(), TimeRange())
    for _ in range(2):
        result = evaluator.evaluate_rows(world.detector.active_rules, {"a": rows})
        assert result.failed == frozenset()
        ((rule, event_rows),) = result.event_rows
        assert (rule.name, len(event_rows)) == ("g/Good", 200)
    states = {row.state for row in DeploymentGateway(connection).list_active()}
    assert states == {"running"}
    assert LostVerdictGateway(connection).count_by_rule() == []


def _check_reported_error(connection: Connection[Any], bad: str) -> None:
    errors = RuleErrorGateway(connection).list_newest("g/Bad")
    if bad == "throws":
        (located,) = [error for error in errors if error.event is not None]
        assert located.kind == "error"
        assert "CAST_INVALID_INPUT" in located.message
        assert located.event["stream"] == "a"
        assert (located.event["row"]["host"], located.event["row"]["n"]) == ("abc", 1013)
    else:
        # Each evaluation with more than 20 events per minute is a failure: excess events are
        # counted and left out.
        assert {error.kind for error in errors} == {"flood"}
        assert sum(error.times for error in errors) >= 40


@pytest.mark.slow
def test_a_statement_over_its_limit_is_stopped_and_the_next_runs(
    spark: SparkSession, settings: Settings, connection: Connection[Any], tmp_path: Path
) -> None:
    definitions = _rules(spark, settings, ("Bad", BAD["floods"]), GOOD)
    world = World(spark, connection, settings, definitions, tmp_path / "time")
    (bad, good), guard = world.detector.active_rules, world.guard
    # The first statement of a guard may take longer.
    guard.run([good], 0, lambda: spark.sql("SELECT 1 AS one").toArrow())
    for state in ("running", "quarantined"):
        with pytest.raises(StatementTimeout, match="exceeded its time limit") as stopped:
            guard.run(
                [bad],
                0,
                lambda: spark.sql("SELECT max(id % 7) FROM range(1000000000000)").toArrow(),
            )
        guard.record_failure(bad, stopped.value)
        assert {d.rule: d.state for d in DeploymentGateway(connection).list_active()} == {
            "g/Bad": state,
            "g/Good": "running",
        }
        assert guard.run([good], 0, lambda: spark.sql("SELECT 1 AS one").toArrow())[
            "one"
        ].to_pylist() == [1]
    assert guard.isolate_suspects([bad, good], lambda rule: rule.name) == [[good], [bad]]
    assert {error.kind for error in RuleErrorGateway(connection).list_newest("g/Bad")} == {"time"}
    world.detector.reload(START)
    _drive(world)
    assert len(_good(connection)) == 100


def test_stored_rules_are_checked_again(
    spark: SparkSession, settings: Settings, connection: Connection[Any], tmp_path: Path
) -> None:
    """What was put into the database by another way than `rules apply` does not run, and harms no
    other rule.
    """
    definitions = _rules(spark, settings, ("Bad", "SELECT host, n, ts FROM a WHERE v > 60"), GOOD)
    world = World(spark, connection, settings, definitions, tmp_path / "gate")
    evil = "SELECT host, n, ts, reflect('java.lang.System', 'getenv', 'PATH') AS path FROM a"
    query = "UPDATE rules SET definition = jsonb_set(definition, '{rule,rules,0,expr}', to_jsonb(%s::text)) "
    connection.execute(f"{query} WHERE rule = 'g/Bad'", (evil,))
    world.reopen()
    _drive(world)
    assert len(_good(connection)) == 100
    states = {
        deployment.rule: deployment for deployment in DeploymentGateway(connection).list_active()
    }
    assert states["g/Bad"].state == "quarantined"
    assert "rejected by the rule check: reflect is not allowed" in str(states["g/Bad"].error)
    assert connection.execute("SELECT count(*) FROM events WHERE rule = 'g/Bad'").fetchone() == (0,)
