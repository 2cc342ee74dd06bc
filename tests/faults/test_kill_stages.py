"""kill -9 of the recall process while stages are evaluated: rows, numbers and boundaries are those of
an undisturbed run.
"""

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from recall.event_plans import EventPlan
from tests.faults.recalling import Recaller
from tests.stage_world import ATTRIBUTES, NORM_COLUMNS, Row, StageWorld, stage, stage_world

SEED = int(os.environ.get("MOIRAE_FAULT_SEED", "1"))
EVENTS = 12
HOSTS = "abcd"
SECONDS = 600
KEY = {"site": "string"}
LIGHT = {"host": "string", "mean": "double"}
JOINED = {"host": "string", "mean": "double", "v": "double"}
PLAN = EventPlan(
    recalls=("norm",),
    stages=(
        stage(
            "light",
            "SELECT n.host, n.mean FROM norm n WHERE n.mean < event.limit",
            {"norm": {**KEY, **NORM_COLUMNS}},
            LIGHT,
        ),
        stage(
            "joined",
            "SELECT l.host, l.mean, p.v FROM light l JOIN load p ON p.host = l.host",
            {"light": {**KEY, **LIGHT}},
            JOINED,
            live=True,
            within=10,
            delay=5,
        ),
        stage(
            "summary",
            "SELECT j.host, count(*) AS n, max(j.v) AS top FROM joined j GROUP BY j.host",
            {"joined": {**KEY, **JOINED}},
            {"host": "string", "n": "bigint", "top": "double"},
        ),
    ),
    attributes=ATTRIBUTES,
    key_types=KEY,
)


@pytest.fixture
def world() -> Iterator[StageWorld]:
    """Ten minutes of rows in many chunks."""
    rng = random.Random(SEED)
    with stage_world(rows_per_chunk=25) as new_world:
        rows: list[Row] = [
            (float(second), rng.choice(HOSTS), round(rng.gauss(5, 2), 3))
            for second in range(SECONDS)
        ]
        for start in range(0, SECONDS, 25):
            new_world.ingest(rows[start : start + 25])
        yield new_world


def _request(world: StageWorld) -> list[UUID]:
    world.clear()
    rng = random.Random(SEED)
    return [
        world.request(
            number, rng.uniform(SECONDS / 2, SECONDS - 20), PLAN, limit=rng.uniform(4.8, 5.3)
        )
        for number in range(1, EVENTS + 1)
    ]


def _ended(world: StageWorld) -> int:
    row = world.connection.execute("SELECT count(ended_at) FROM recalled_events").fetchone()
    assert row is not None
    return int(row[0])


def _revision_count(world: StageWorld) -> int:
    row = world.connection.execute("SELECT count(*) FROM row_revisions").fetchone()
    assert row is not None
    return int(row[0])


def _finish(world: StageWorld, eids: list[UUID]) -> dict[tuple[str, UUID], Any]:
    process = Recaller(Path(world.settings.file))
    deadline = time.monotonic() + 300
    try:
        while _ended(world) < len(eids):
            assert time.monotonic() < deadline, "not all events end"
            process.look()
            time.sleep(0.1)
    finally:
        process.end()
    rows = {}
    for name in ("norm", "light", "joined", "summary"):
        numbers = [seq for seq, *_ in world.revisions(name)]
        assert numbers == list(range(1, len(numbers) + 1)), "revisions have no gap"
        for eid in eids:
            operations = [op for _, op, *_ in world.revisions(name, eid)]
            assert operations.count("boundary") == 1
            assert operations[-1] == "boundary"
            # Sums depend on the order in which pieces are merged.
            rows[name, eid] = sorted(
                str({k: round(v, 6) if isinstance(v, float) else v for k, v in row.items()})
                for row in (dict(sorted(row.items())) for row in world.replayed(name, eid))
            )
    return rows


@pytest.mark.faults
@pytest.mark.parametrize("kills", [20])
@pytest.mark.timeout(1500)
def test_killed_process_changes_no_row_of_a_stage(world: StageWorld, kills: int) -> None:
    rng = random.Random(SEED)
    print(f"seed {SEED}")
    undisturbed = _finish(world, _request(world))
    assert any(rows for (name, _), rows in undisturbed.items() if name == "summary")
    eids = _request(world)
    in_midst = 0
    for number in range(kills):
        before = _revision_count(world)
        process = Recaller(Path(world.settings.file))
        deadline = time.monotonic() + 120
        while _revision_count(world) == before and _ended(world) < len(eids):
            assert time.monotonic() < deadline, "no revision is stored"
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.3))
        process.kill()
        # Three processes that end at one piece would end the recall: it is not at fault here.
        world.connection.execute("UPDATE tasks SET tries = 0")
        ended = _ended(world)
        in_midst += ended < len(eids)
        print(f"kill {number + 1}: {_revision_count(world) - before} revisions, {ended} ended")
        if ended == len(eids):
            eids = _request(world)
    assert in_midst, "each kill came after the end"
    assert _finish(world, eids) == undisturbed
