"""What `rules why` says of a rule, a key and a time is what live detection had then, and without the
condition that it names the rule has an event.
"""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg import Connection
from pyspark.sql import SparkSession
from sqlglot import exp

from archiver.time_range import TimeRange
from archiver.times import from_micros, to_micros
from moirae.alerts.event import make_fingerprint
from moirae.backtest.archive import BacktestArchive
from moirae.config.settings import Settings
from moirae.evaluation.plan import ActiveRule
from moirae.rules.definition import Definition
from moirae.runtime import database
from moirae.why.alerts_at import format_value
from moirae.why.conditions import list_conditions, remove_conditions
from moirae.why.evaluation import KeySlice
from moirae.why.explain import explain_alert
from moirae.why.stage_queries import build_key_condition
from tests.property.test_backtest_is_live import open_world_archive
from tests.property.world import START, Plan, World, definitions, workspace

pytestmark = [pytest.mark.services, pytest.mark.slow]
WORLDS = 4
QUESTIONS = 250  # of each world


@pytest.fixture(scope="module")
def workspace_settings(public_folder: Path) -> Settings:
    return workspace(public_folder)


@pytest.fixture(scope="module")
def connection(workspace_settings: Settings) -> Iterator[Connection[Any]]:
    with database.connect_database(workspace_settings, "why") as opened:
        yield opened


@pytest.fixture(scope="module")
def rules(spark: SparkSession, workspace_settings: Settings) -> list[Definition]:
    return definitions(spark, workspace_settings)


def list_alerts(world: World) -> list[Any]:
    return world.connection.execute(
        "SELECT rule, key, starts_at, fired_at, ends_at FROM alerts "
        "WHERE state IN ('pending', 'firing', 'resolved')"
    ).fetchall()


def find_live_verdict(alerts: list[Any], rule: str, key: dict[str, Any], at: int) -> str:
    for alert_rule, alert_key, *times in alerts:
        starts, fired, ends = (None if time is None else to_micros(time) for time in times)
        is_open = starts <= at and (ends is None or ends >= at)
        if alert_rule == rule and make_fingerprint(alert_key) == make_fingerprint(key) and is_open:
            return "firing" if fired is not None and fired <= at else "pending"
    return "none"


@pytest.mark.timeout(3000)
@settings(max_examples=WORLDS)
@given(seed=st.integers(0, 10**9))
def test_verdict_is_that_of_live_and_the_named_condition_decides(
    spark: SparkSession,
    connection: Connection[Any],
    workspace_settings: Settings,
    rules: list[Definition],
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
) -> None:
    world = World(spark, connection, workspace_settings, rules, tmp_path_factory.mktemp("archive"))
    for batch in Plan.draw(seed).batches:
        world.ingest(batch, at_once=bool(seed % 2))
    world.end_input()
    world.follow_up.run_to_end()
    archive = open_world_archive(world)
    alerts = list_alerts(world)
    draw = random.Random(seed)
    verdicts: set[str] = set()
    for _ in range(QUESTIONS):
        rule = ActiveRule.of_workspace(draw.choice(rules), world.settings)
        question = draw_question(draw, rule, archive, alerts)
        if question is None:
            continue
        key, at = question
        texts = {name: format_value(value) for name, value in key.items()}
        explanation = explain_alert(rule, archive, texts, at)
        shown = "firing" if explanation.verdict == "hidden" else explanation.verdict
        context = (rule.name, key, from_micros(at), explanation)
        assert shown == find_live_verdict(alerts, rule.name, key, at), context
        assert not any(stage.error for stage in explanation.stages), context
        verdicts.add(explanation.verdict)
        if explanation.verdict == "none" and explanation.deciding:
            assert count_events_without(rule, archive, texts, at, explanation.deciding), context
    assert {"firing", "none"} <= verdicts


def draw_question(
    draw: random.Random, rule: ActiveRule, archive: BacktestArchive, alerts: list[Any]
) -> tuple[dict[str, Any], int] | None:
    """A key and a time: near an alert of the rule, or anywhere."""
    horizon = rule.shape.horizon(archive.watermarks)
    own = [alert for alert in alerts if alert[0] == rule.name]
    if horizon is None or not rule.shape.streams <= archive.newest.keys():
        return None
    if own and draw.random() < 0.7:
        alert = draw.choice(own)
        key, at = alert[1], to_micros(alert[2]) + draw.randrange(-60_000_000, 400_000_000)
    else:
        newest = max(archive.newest.values())
        key = dict.fromkeys(rule.definition.key, "h1")
        at = draw.randrange(to_micros(START), newest)
    if any(value is None for value in key.values()):
        return None
    return key, min(at, horizon - 1)


def count_events_without(
    rule: ActiveRule, archive: BacktestArchive, key: dict[str, str], at: int, texts: Any
) -> int:
    """Events of the key once the conditions with these texts are removed, counted apart."""
    key_slice = KeySlice(rule, archive, key, TimeRange(at - rule.keep_firing_for, at + 1))
    nodes = list_conditions(key_slice.query)
    positions = [number for number, node in enumerate(nodes) if node.text in texts]
    query = remove_conditions(key_slice.query, positions)
    frame = archive.finder.spark.sql(query.sql(dialect="spark"))
    for name, text in key.items():
        frame = frame.where(build_key_condition(exp.column(name), text).sql(dialect="spark"))
    times = [row[0] for row in frame.selectExpr("unix_micros(ts)").collect()]
    return sum(at - rule.keep_firing_for <= time <= at for time in times)
