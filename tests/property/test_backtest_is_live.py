"""The alerts of a back-test are those that live detection had: first events, times, states, events.
They are so whether it reads all rows, or those that a scan of the files finds necessary.

Not the IDs of alerts: live, one whose start has moved keeps the ID that it was first told with.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg import Connection
from pyspark.sql import SparkSession

from archiver.read.reader import Reader
from moirae.backtest.archive import BacktestArchive
from moirae.backtest.run import Backtest, plan_backtest
from moirae.config.settings import Settings
from moirae.config.table_schemas import stream_schema
from moirae.evaluation.necessary_scan import NecessaryScan
from moirae.evaluation.plan import ActiveRule
from moirae.history.finder import PastFinder, RelationVersions
from moirae.live.event_time import get_watermarks
from moirae.live.relations import Relations
from moirae.rules.definition import Definition
from moirae.runtime import database
from recall.engines.routing import choice
from tests.property.world import Plan, World, definitions, workspace

pytestmark = [pytest.mark.services, pytest.mark.slow]


@pytest.fixture(scope="module")
def workspace_settings(public_folder: Path) -> Settings:
    return workspace(public_folder)


@pytest.fixture(scope="module")
def connection(workspace_settings: Settings) -> Iterator[Connection[Any]]:
    with database.connect_database(workspace_settings, "back-tests") as opened:
        yield opened


@pytest.fixture(scope="module")
def rules(spark: SparkSession, workspace_settings: Settings) -> list[Definition]:
    return definitions(spark, workspace_settings)


def open_world_archive(world: World) -> BacktestArchive:
    relations = world.settings.relations
    columns = {name: relation.columns for name, relation in relations.items()}
    versions = RelationVersions(
        Relations(world.connection, relations).table, frozenset(columns), columns
    )
    schemas = [stream_schema(*item) for item in world.settings.streams.items()]
    reader = Reader(world.root, schemas)
    finder = PastFinder(world.spark.newSession(), reader, versions)
    return BacktestArchive.create(finder, reader, get_watermarks(world.archive))


def list_live_alerts(world: World) -> list[tuple[Any, ...]]:
    rows = world.connection.execute(
        "SELECT rule, eid, state, starts_at, fired_at, last_at, ends_at, events FROM alerts "
        "WHERE state IN ('pending', 'firing', 'resolved')"
    ).fetchall()
    return sorted((to_utc(row) for row in rows), key=repr)


def to_utc(row: Any) -> tuple[Any, ...]:
    return tuple(value.astimezone(UTC) if hasattr(value, "astimezone") else value for value in row)


def list_backtest_alerts(world: World, rules: list[Definition]) -> list[tuple[Any, ...]]:
    archive = open_world_archive(world)
    alerts: list[tuple[Any, ...]] = []
    for definition in rules:
        rule = ActiveRule.of_workspace(definition, world.settings)
        tested = plan_backtest(rule, archive, lambda newest: 0, None)
        if tested is None:
            continue
        test = Backtest(rule, archive, tested)
        for _ in test.evaluate():
            pass
        for alert in test.list_alerts():
            state = "pending" if alert.state == "ended" else alert.state
            times = (alert.starts_at, alert.fired_at, alert.last_at, alert.ends_at)
            alerts.append(to_utc((alert.rule, alert.eid, state, *times, alert.events)))
    return sorted(alerts, key=repr)


@contextmanager
def scanned_streams() -> Iterator[set[str]]:
    """Scan files that have a row, and tell of which streams rows were found by it."""
    streams: set[str] = set()
    read = NecessaryScan.read

    def record(scan: NecessaryScan, groups: Any, stream: str, *arguments: Any) -> Any:
        rows = read(scan, groups, stream, *arguments)
        if rows is not None:
            streams.add(stream)
        return rows

    with patch.object(choice, "WIDE_SCAN_ROWS", 1), patch.object(NecessaryScan, "read", record):
        yield streams


@pytest.mark.timeout(3000)
@settings(max_examples=1)
@given(seed=st.integers(0, 10**9))
def test_backtest_has_the_alerts_of_live_detection(
    spark: SparkSession,
    connection: Connection[Any],
    workspace_settings: Settings,
    rules: list[Definition],
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
) -> None:
    folder = tmp_path_factory.mktemp("archive")
    world = World(spark, connection, workspace_settings, rules, folder)
    for batch in Plan.draw(seed).batches:
        world.ingest(batch, at_once=bool(seed % 2))
    world.end_input()
    world.follow_up.run_to_end()
    alerts = list_live_alerts(world)
    assert list_backtest_alerts(world, rules) == alerts != []
    with scanned_streams() as streams:
        assert list_backtest_alerts(world, rules) == alerts
    assert streams == {"a", "b"}
