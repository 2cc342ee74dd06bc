"""Stored rules that are rejected: other rules run, and rejected ones resume at their position when
they pass again.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection
from pyspark.sql import SparkSession

from archiver.formats import JSONL
from archiver.ingest.writer import SourceUnit
from moirae.config.settings import Settings
from moirae.deployments.registry import RuleRegistry
from moirae.deployments.reload import RuleFileLoader
from moirae.rules.checks import stored_rules as admission
from moirae.rules.definition import Definition
from moirae.rules.model import AlertSpec
from moirae.rules.rule_set import DerivedQuery, Rule
from moirae.runtime import database
from recall.errors import QueryRejected
from recall.sandbox import validation
from sql.rules import DeploymentGateway, DeploymentRow
from tests.property.world import RULES, START, World, workspace

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def settings(public_folder: Path) -> Settings:
    return workspace(public_folder)


@pytest.fixture(scope="module")
def connection(settings: Settings) -> Iterator[Connection[Any]]:
    with database.connect_database(settings, "refused") as new_connection:
        yield new_connection


def _definition(name: str) -> Definition:
    rule = Rule("g", AlertSpec(alert=name, expr="SELECT host, n, ts FROM a WHERE v > 10"))
    return Definition(rule, {"host": "string", "n": "bigint"}, ("host",), ("host",))


def _batch(number: int) -> SourceUnit:
    times = [START + timedelta(minutes=5 * number, seconds=i) for i in range(10)]
    rows = [
        {"ts": ts.isoformat(), "host": "h", "v": 50.0, "n": number * 10 + i}
        for i, ts in enumerate(times)
    ]
    return SourceUnit(
        "a", str(number), JSONL, lambda: iter([json.dumps(row).encode() for row in rows])
    )


def _deployed(connection: Connection[Any], rule: str) -> DeploymentRow:
    (deployment,) = [d for d in DeploymentGateway(connection).list_active() if d.rule == rule]
    return deployment


def _running(world: World) -> list[str]:
    return [rule.name for rule in world.detector.active_rules]


@pytest.mark.slow
def test_damaged_stored_rule_is_rejected_alone_and_replaced_by_apply(
    spark: SparkSession, connection: Connection[Any], settings: Settings, tmp_path: Path
) -> None:
    definitions = [_definition("Bad"), _definition("Good")]
    world = World(spark, connection, settings, definitions, tmp_path)
    connection.execute("UPDATE rules SET definition = definition - 'answers' WHERE rule = 'g/Bad'")
    world.reopen()
    assert _running(world) == ["g/Good"]
    bad = _deployed(connection, "g/Bad")
    assert bad.state == "quarantined"
    assert "cannot be read" in (bad.error or "")
    registry = RuleRegistry(connection)
    assert [(step.action, step.rule) for step in registry.apply(definitions)] == [
        ("update", "g/Bad")
    ]
    world.detector.reload(START)
    assert _running(world) == ["g/Bad", "g/Good"]
    connection.execute("UPDATE rules SET definition = '{}' WHERE rule = 'g/Bad'")
    assert [(step.action, step.rule) for step in registry.apply(definitions[1:])] == [
        ("stop", "g/Bad")
    ]


def _exceed_limit(*_: Any) -> Any:
    raise QueryRejected("analysis of the query takes more than 20 s")


def test_temporarily_rejected_rule_resumes_at_its_position(
    spark: SparkSession,
    connection: Connection[Any],
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    good, new = _definition("Good"), _definition("New")
    world = World(spark, connection, settings, [good], tmp_path)
    world.ingest([_batch(0), _batch(1)], at_once=True)
    begins = world.archive.watermark("a")
    with monkeypatch.context() as busy:
        busy.setattr(validation, "run_with_limit", _exceed_limit)
        RuleRegistry(connection).apply([good, new])
        world.detector.reload(START)
    refused = _deployed(connection, "g/New")
    assert (refused.state, refused.settled_to) == ("quarantined", begins)
    assert _running(world) == ["g/Good"]
    world.ingest([_batch(2)], at_once=True)
    world.reopen()
    assert _running(world) == ["g/Good", "g/New"]
    world.end_input()
    counts = dict(connection.execute("SELECT rule, count(*) FROM events GROUP BY rule").fetchall())
    assert counts["g/Good"] == 30
    # Of the second batch all rows lie beyond the watermark, as the stream's lateness is 30 s; of
    # the first, none.
    assert counts["g/New"] == 20


@pytest.mark.slow
def test_quarantine_for_failures_is_not_lifted_by_a_restart(
    spark: SparkSession, connection: Connection[Any], settings: Settings, tmp_path: Path
) -> None:
    world = World(spark, connection, settings, [_definition("Bad")], tmp_path)
    registry, version = RuleRegistry(connection), _definition("Bad").version
    assert registry.record_failure("g/Bad", version, "error", "fell", None, 1)
    registry.refuse("g/Bad", version, "no time")
    world.reopen()
    assert _running(world) == []


@pytest.mark.slow
def test_rules_checked_by_a_reload_are_not_checked_again(
    spark: SparkSession,
    settings: Settings,
    connection: Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (settings.file.parent / "rules").mkdir()
    file = settings.file.parent / "rules" / "rules.yaml"
    file.write_text(RULES)
    door = admission.RuleAdmission(lambda: spark, settings)
    RuleFileLoader(lambda: spark, settings, connection, door).apply()
    stored = RuleRegistry(connection).desired_rules()
    with monkeypatch.context() as closed:
        closed.setattr(admission, "check_rules", None)
        assert door.admit(stored) == (stored, {})
    odd = replace(
        stored[0],
        rule=replace(stored[0].rule, spec=AlertSpec(alert="Odd", expr="SELECT reflect('a', 'b')")),
    )
    admitted, refused = door.admit([odd, *stored[1:]])
    assert admitted == stored[1:]
    assert list(refused) == [odd.name]


def test_stored_rule_is_checked_with_its_own_derived_streams(
    spark: SparkSession, settings: Settings
) -> None:
    """Not with those stored for another rule of its group."""

    def reading(name: str, text: str) -> Definition:
        rule = Rule(
            "g",
            AlertSpec(alert=name, expr="SELECT host, ts FROM d"),
            (DerivedQuery("g", "d", text),),
        )
        return Definition(rule, {"host": "string"}, ("host",), ("host",))

    good = reading("Good", "SELECT host, ts FROM a")
    bad = reading(
        "Bad", "SELECT reflect('java.lang.System', 'getProperty', 'user.home') AS host, ts FROM a"
    )
    admitted, refused = admission.RuleAdmission(lambda: spark, settings).admit([good, bad])
    assert [definition.name for definition in admitted] == ["g/Good"]
    assert "reflect is not allowed" in refused["g/Bad"]


@pytest.mark.slow
def test_crash_of_the_check_rejects_the_rule_at_fault(
    spark: SparkSession, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = admission.check_rules

    def falls(spark: SparkSession, settings: Settings, rules: Any) -> Any:
        if any(rule.id == "g/Bad" for rule in rules.rules):
            raise RuntimeError("a fault of the check")
        return check(spark, settings, rules)

    monkeypatch.setattr(admission, "check_rules", falls)
    admitted, refused = admission.RuleAdmission(lambda: spark, settings).admit(
        [_definition("Bad"), _definition("Good")]
    )
    assert [definition.name for definition in admitted] == ["g/Good"]
    assert refused.keys() == {"g/Bad"}
    assert "a fault of the check" in refused["g/Bad"]
