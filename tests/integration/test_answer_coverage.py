"""Stages and conditions read what answers were computed from, at each revision."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from recall.event_plans import EventPlan
from recall.stages.runner import StageRunner
from recall.worker.manager import RecallManager
from tests.stage_world import ATTRIBUTES, NORM_COLUMNS, StageWorld, stage, stage_world

pytestmark = pytest.mark.services

KEY = {"site": "string"}
COVERAGE = {"coverage": "double", "final": "boolean", "covered_to": "timestamp"}
ESTIMATES = {"n_estimate": "double", "n_low": "double"}
SHARES = stage(
    "shares",
    "SELECT r.host, r.n, r.n_estimate AS projected, r.coverage AS share, r.final AS done, "
    "r.covered_to AS until FROM norm r",
    {"norm": {**KEY, **NORM_COLUMNS}},
    {
        "host": "string",
        "n": "bigint",
        "projected": "double",
        "share": "double",
        "done": "boolean",
        "until": "timestamp",
    },
    coverage={"norm": {**COVERAGE, **ESTIMATES}},
)
# The rows of host b are all in the newest chunk.
NEWEST = "SELECT max(h.v) AS top FROM load h WHERE h.host = 'b'"


@pytest.fixture(scope="module")
def _world() -> Iterator[StageWorld]:
    with stage_world(rows_per_chunk=10) as world:
        for first in range(0, 120, 10):
            world.ingest([(float(second), "a", 1.0) for second in range(first, first + 10)])
        world.ingest(
            [(120.0, "a", 1.0)] + [(float(second), "b", 2.0) for second in range(121, 125)]
        )
        yield world


@pytest.fixture
def world(_world: StageWorld) -> StageWorld:
    _world.clear()
    return _world


def _turn(world: StageWorld, manager: RecallManager, runner: StageRunner, eid: UUID) -> bool:
    """Run the next turn and what follows from it; returns whether the recall goes on."""
    manager.run_once()
    manager.wait_for_query()
    manager.run_once()
    runner.run_once()
    return world.task_state(eid) != "done"


def test_stage_reads_coverage_and_estimates_of_each_revision(world: StageWorld) -> None:
    plan = EventPlan(
        recalls=("norm",), stages=(SHARES,), attributes=ATTRIBUTES, key_types=KEY, every=0.0
    )
    eid = world.request(1, 130, plan)
    seen: list[dict[str, Any]] = []
    with world.manager() as manager, world.runner() as runner:
        goes_on = True
        while goes_on:
            goes_on = _turn(world, manager, runner, eid)
            seen += [row for row in world.replayed("shares", eid) if row["host"] == "a"]
        runner.end_events()
    (last,) = [row for row in world.replayed("shares", eid) if row["host"] == "a"]
    shares = [row["share"] for row in seen]
    assert shares == sorted(shares) and 0 < shares[0] < 1
    assert (last["share"], last["done"], last["n"], last["projected"]) == (1.0, True, 121, 121.0)
    assert {row["until"] for row in seen} == {"2026-01-01T00:02:10.000000Z"}
    assert not seen[0]["done"] and seen[0]["n"] < seen[0]["projected"]


def test_condition_is_decided_again_by_a_coverage_that_has_changed_alone(
    world: StageWorld,
) -> None:
    """Older chunks leave the row as it is: no row revision follows, but the coverage grows."""
    plan = EventPlan(
        recalls=("norm",),
        where="norm.top > 1 AND norm.coverage >= 1",
        judged={"norm": {"top": "double", "coverage": "double"}},
        judged_coverage=("norm",),
        attributes=ATTRIBUTES,
        key_types=KEY,
        every=0.0,
    )
    eid = world.request(1, 130, plan, sql=NEWEST)
    world.add_alert(eid)
    with world.manager() as manager, world.runner() as runner:
        while _turn(world, manager, runner, eid):
            if world.revisions("norm", eid):
                assert world.histories()[-1][0] == "withdrawn"
        assert len(world.revisions("norm", eid)) <= 2, "the row and a boundary"
        runner.end_events()
    assert world.histories()[-1] == ("kept", True)
