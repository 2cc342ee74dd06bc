"""The past of rules over many rows is computed in tasks on executors, with equal results."""

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from archiver.executors.jobs import SparkJobs
from archiver.read.reader import Reader
from archiver.time_range import TimeRange
from moirae.alerts import Event
from moirae.config.settings import Settings
from moirae.config.table_schemas import stream_schema
from moirae.evaluation.plan import ActiveRule
from moirae.history import engines, finder
from moirae.history.finder import PastFinder, RelationVersions
from moirae.live.relations import Relations
from moirae.runtime import database
from recall.engines.routing import EngineSetting, choice
from recall.errors import LimitExceeded
from recall.statements import file_rows
from tests.property.world import Plan, World, definitions, workspace

pytestmark = pytest.mark.services

RULES = """
groups:
- name: g
  rules:
  - alert: Filter
    expr: SELECT host, n, ts, v * 2 AS double FROM a WHERE v > 60
    id: [host, n]
  - alert: Window
    expr: >-
      SELECT host, window.end AS ts, count(*) AS c FROM a
      GROUP BY host, window(ts, '2 minutes', '1 minute') HAVING count(*) > 1
  - alert: Site
    expr: SELECT a.host, a.n, a.ts, h.site FROM a JOIN hosts h ON a.host = h.host WHERE a.v > 30
    id: [host, n]
"""
IN_TASKS = {"g/Filter": True, "g/Window": True, "g/Site": True}


@pytest.fixture
def world(spark: SparkSession, public_folder: Path, tmp_path: Path) -> Any:
    settings = workspace(public_folder)
    with database.connect_database(settings, "tasks") as connection:
        world = World(spark, connection, settings, definitions(spark, settings, RULES), tmp_path)
        for batch in Plan.draw(7).batches:
            world.ingest(batch, at_once=False)
        world.end_input()
        yield world, settings


def find(
    world: World, settings: Settings, rule: ActiveRule, setting: EngineSetting
) -> tuple[list[Event], int]:
    """The events of a rule in all of history, and how many tasks have run."""
    schemas = [stream_schema(name, declared) for name, declared in settings.streams.items()]
    columns = {name: relation.columns for name, relation in settings.relations.items()}
    relations = Relations(world.connection, settings.relations).table
    past = PastFinder(
        world.spark.newSession(),
        Reader(world.root, schemas),
        RelationVersions(relations, frozenset(columns), columns),
        setting,
    )
    jobs = SparkJobs(world.spark.sparkContext)
    past._rule_engines._tasks.jobs = jobs
    events = past.find_events(rule, TimeRange())
    return sorted(events, key=lambda event: (event.ts, event.eid)), jobs.task_count


@pytest.mark.slow
def test_past_in_tasks_is_that_of_one_statement(world: tuple[World, Settings]) -> None:
    """Only what DuckDB can run, from some rows on, and not with engine `local`."""
    archive, settings = world
    with patch.object(choice, "WIDE_SCAN_ROWS", 1), patch.object(file_rows, "MIN_TASK_ROWS", 5):
        for rule in archive.detector.active_rules:
            expected, local_tasks = find(archive, settings, rule, "local")
            found, tasks = find(archive, settings, rule, "spark")
            assert found == expected != []
            assert (tasks > 0, local_tasks) == (IN_TASKS[rule.name], 0), rule.name
            scanned, scan_tasks = find(archive, settings, rule, "auto")
            assert scanned == expected
            # A scan of the files finds what is necessary, if the rule has a condition on rows.
            assert (scan_tasks == 0) == (" WHERE " in rule.spec.expr), rule.name


@pytest.mark.slow
def test_past_with_too_many_event_rows_is_refused(world: tuple[World, Settings]) -> None:
    """By the statement of Spark, to which tasks leave what is beyond their limit."""
    archive, settings = world
    (rule,) = [rule for rule in archive.detector.active_rules if rule.name == "g/Filter"]
    with (
        patch.object(choice, "WIDE_SCAN_ROWS", 1),
        patch.object(engines, "MAX_PAST_EVENT_ROWS", 3),
        patch.object(finder, "MAX_PAST_EVENT_ROWS", 3),
        pytest.raises(LimitExceeded, match="more than 3 event rows"),
    ):
        find(archive, settings, rule, "auto")
