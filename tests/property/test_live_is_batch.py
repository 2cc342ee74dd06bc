"""Live detection, in any batches and after any restarts, finds what one run over the archive finds."""

import random
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg import Connection
from pyspark.sql import SparkSession

from archiver.formats import JSONL
from archiver.ingest.engines import EngineMode
from archiver.ingest.source_units import SourceUnit
from archiver.ingest.writer import ArchiveWriter
from moirae.config.settings import Settings
from moirae.evaluation import ExecutorRules, panes
from moirae.evaluation.rule_groups import RuleGroup
from moirae.rules.definition import Definition
from moirae.runtime import database
from sql.archive import UnitGateway
from tests.property.world import Plan, World, definitions, workspace

pytestmark = pytest.mark.services

Make = Callable[..., World]

# Seconds of `for` and `keep_firing_for`, where they are not 0 and 300.
TIMING = {"Filter": (40, 60), "Star": (0, 30), "End": (60, 300), "Start": (0, 0), "Silent": (0, 60)}


class Crash(Exception):
    """Raised where the process is killed."""


@pytest.fixture(scope="module")
def workspace_settings(public_folder: Path) -> Settings:
    return workspace(public_folder)


@pytest.fixture(scope="module")
def connection(workspace_settings: Settings) -> Iterator[Connection[Any]]:
    with database.connect_database(workspace_settings, "properties") as new_connection:
        yield new_connection


@pytest.fixture(scope="module")
def rules(spark: SparkSession, workspace_settings: Settings) -> list[Definition]:
    return definitions(spark, workspace_settings)


@pytest.fixture(scope="module")
def make(
    spark: SparkSession,
    connection: Connection[Any],
    workspace_settings: Settings,
    rules: list[Definition],
    tmp_path_factory: pytest.TempPathFactory,
) -> Make:
    """Makes new worlds."""

    def make(engine: EngineMode = "local") -> World:
        root = tmp_path_factory.mktemp("archive")
        return World(spark, connection, workspace_settings, rules, root, engine)

    return make


def _drive(
    world: World, plan: Plan, rng: random.Random, idle: bool, restarts: bool, ahead: bool = False
) -> None:
    """`ahead`: some rows are ahead of the clock."""
    for batch, clock in zip(plan.batches, plan.clocks, strict=True):
        if ahead:
            world.now = clock
        if restarts and rng.random() < 0.3:
            _crash(world, batch)
            world.now += 100_000_000 if ahead else 0  # the clock of the first read counts
        world.ingest(batch, at_once=rng.random() < 0.5)
        if restarts and rng.random() < 0.2:
            world.reopen()
        if idle and rng.random() < 0.3:
            world.advance_idle()
        if ahead and rng.random() < 0.4:
            world.follow_rows_ahead()
    world.end_input()


def _crash(world: World, batch: Any) -> None:
    """The process falls after the rows are appended, before the ledger says so."""
    finish = ArchiveWriter._finish_units

    def kill(*_: Any) -> None:
        raise Crash

    ArchiveWriter._finish_units = kill  # type: ignore[method-assign]
    try:
        world.ingest(batch, at_once=True)
    except Crash:
        world.reopen()
    finally:
        ArchiveWriter._finish_units = finish  # type: ignore[method-assign]


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.slow)])
@settings(max_examples=1)
@given(
    seed=st.integers(0, 10**9),
    idle=st.booleans(),
    restarts=st.booleans(),
    few=st.sampled_from([0, 0, 100]),
)
def test_live_equals_batch(
    make: Make, engine: EngineMode, seed: int, idle: bool, restarts: bool, few: int
) -> None:
    plan, world = Plan.draw(seed), make(engine)
    # Windows that slide are merged of panes; with so many rows at most they are aggregated whole.
    with patch.object(panes, "_MIN_ROWS", few):
        _drive(world, plan, random.Random(seed), idle, restarts)
    live, batch = world.events(), world.batch_events()
    for name in batch:
        assert live[name] == batch[name], name
    _identity(world, plan)
    _alerts(world)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.slow)])
@settings(max_examples=1)
@given(seed=st.integers(0, 10**9), idle=st.booleans(), restarts=st.booleans())
def test_live_equals_batch_with_rows_ahead_of_the_clock(
    make: Make, engine: EngineMode, seed: int, idle: bool, restarts: bool
) -> None:
    plan, world = Plan.draw(seed), make(engine)
    _drive(world, plan, random.Random(seed), idle, restarts, ahead=True)
    live, batch = world.events(), world.batch_events()
    for name in batch:
        assert live[name] == batch[name], name
    _identity(world, plan)
    _alerts(world)


@pytest.mark.slow
def test_new_rows_are_detected_and_settled_by_one_job(make: Make) -> None:
    """The newest row is detected, the others are settled; then it is settled, too."""
    world = make("spark")
    evaluate = ExecutorRules.run
    evaluated_rules: list[str] = []

    def record(rules: ExecutorRules, groups: Sequence[RuleGroup], *arguments: Any) -> Any:
        evaluated_rules.extend(name for group in groups for name in group.rule_names)
        return evaluate(rules, groups, *arguments)

    states = []
    with patch.object(ExecutorRules, "run", record):
        for number in range(2):
            rows = [{"at": 1_767_225_600 + 3 * number + k, "host": "h", "w": 9} for k in range(3)]
            unit = SourceUnit("b", f"{number}", JSONL, partial(map, orjson.dumps, rows))
            world.ingest([unit], at_once=False)
            states.append(
                world.connection.execute(
                    "SELECT settled FROM events WHERE rule = 'g/Star' ORDER BY ts"
                ).fetchall()
            )
    assert evaluated_rules.count("g/Star") == 2
    assert states == [[(True,)] * 2 + [(False,)], [(True,)] * 5 + [(False,)]]


@pytest.mark.slow
@settings(max_examples=1)
@given(seed=st.integers(0, 10**9))
def test_batch_borders_decide_nothing(make: Make, seed: int) -> None:
    plan = Plan.draw(seed)
    results = []
    one_batch = sorted(
        (unit for batch in plan.batches for unit in batch), key=lambda unit: unit.stream
    )
    for batches in (plan.batches, [one_batch]):
        world = make()
        for batch in batches:
            world.ingest(batch, at_once=False)
        world.end_input()
        rows = {name: sorted(map(repr, world.rows(name).to_pylist())) for name in ("a", "b")}
        results.append((rows, world.events()))
    assert results[0] == results[1]


def _identity(world: World, plan: Plan) -> None:
    stream_counts = UnitGateway(world.connection).sum_by_stream()
    for counts in stream_counts:
        dead = counts.malformed + counts.quarantined + counts.conflicts
        assert counts.read == counts.archived + counts.duplicates + dead
        assert world.rows(counts.stream).num_rows == counts.archived
    assert sum(counts.read for counts in stream_counts) == plan.lines


def _alerts(world: World) -> None:
    """Settled alerts are an independent fold of settled events; nothing provisional is left."""
    unsettled = world.connection.execute("SELECT count(*) FROM events WHERE NOT settled").fetchone()
    assert unsettled == (0,)
    query = "SELECT rule, fingerprint, starts_at, fired_at IS NOT NULL, ends_at, state FROM alerts"
    stored = sorted(
        world.connection.execute(f"{query} WHERE state <> 'withdrawn'").fetchall(), key=repr
    )
    events = world.connection.execute(
        "SELECT rule, fingerprint, ts FROM events WHERE settled ORDER BY ts"
    ).fetchall()
    expected = []
    for rule, fingerprint in {(r, f) for r, f, _ in events}:
        wait, keep = (timedelta(seconds=s) for s in TIMING.get(rule.split("/")[1], (0, 300)))
        times = [ts for r, f, ts in events if (r, f) == (rule, fingerprint)]
        start = last = times[0]
        for ts in [*times[1:], None]:
            if ts is None or ts > last + keep:
                fired = last - start >= wait
                expected.append(
                    (
                        rule,
                        fingerprint,
                        start,
                        fired,
                        last + keep,
                        "resolved" if fired else "pending",
                    )
                )
                start = ts or start
            last = ts or last
    assert stored == sorted(expected, key=repr)
