"""kill -9 while ended recalls are trimmed: each revision is read once, and answers repeat."""

import os
import random
import time
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from moirae.runtime import storage
from recall.event_plans import EventPlan
from recall.ledger.revision_archive import RevisionArchive
from recall.ledger.revision_reader import read_revisions
from recall.ledger.row_revisions import EventOutput, RevisionStreams
from recall.replay import SqlReplayer, replay
from recall.revisions.changes import RowChange, diff
from recall.revisions.row_keys import key_rows
from tests.faults.copies import start_copy
from tests.faults.trimming import main
from tests.integration.history import no_relations, no_spark, run_until
from tests.stage_world import RULE, SCHEMA, VERSION, StageWorld, micros, stage_world

SEED = int(os.environ.get("MOIRAE_FAULT_SEED", "1"))
RECALLS = 12  # with answers
_ALL = "SELECT seq, eid, version, ts, op, row_key, row, old_row FROM row_revisions ORDER BY seq"


def _add_events(world: StageWorld, first: int, rng: random.Random) -> list[tuple[Any, ...]]:
    """Revisions about some events, in one transaction; returns those that are new."""
    streams = RevisionStreams(world.connection)
    with world.connection.transaction():
        row = world.connection.execute("SELECT max(last_seq) FROM revision_streams").fetchone()
        before = 0 if row is None or row[0] is None else int(row[0])
        for number in range(first, first + rng.randint(1, 5)):
            output = EventOutput(RULE, VERSION, "norm", UUID(int=number), micros(number / 100))
            old: dict[str, Any] = {}
            for _ in range(rng.randint(1, 4)):
                rows = [{"host": host, "mean": rng.random()} for host in rng.sample("abcd", 2)]
                new = key_rows(rows, ("host",))
                streams.append(output, diff(old, new))
                old = new
            if rng.random() < 0.8:
                streams.append(output, [RowChange("boundary", "")])
        stored = world.connection.execute(_ALL).fetchall()
    return [row for row in stored if row[0] > before]


def _read(world: StageWorld) -> list[tuple[Any, ...]]:
    revisions: list[tuple[Any, ...]] = []
    root = storage.open_storage(world.settings)
    while True:
        after = revisions[-1][0] if revisions else 0
        batch = read_revisions(world.connection, root, "norm", after, 37)
        if not batch.revisions:
            return revisions
        for row in batch.revisions:
            fields = row.seq, row.eid, row.version, row.ts, row.op, row.row_key or None
            revisions.append((*fields, row.row, row.old_row))


def _repeat(world: StageWorld, eid: UUID) -> Any:
    replayer = SqlReplayer(
        world.connection, storage.open_storage(world.settings), [SCHEMA], no_spark, no_relations
    )
    (repeated,) = replay(world.connection, eid, {"sql": replayer})
    assert repeated.equal
    return repeated


def _answer(world: StageWorld) -> list[UUID]:
    """Recalls that have ended, with their boundaries."""
    world.ingest([(second, "a", float(second)) for second in range(60)])
    eids = []
    for number in range(1, RECALLS + 1):
        eids.append(world.request(number, 40.5 + number, EventPlan(recalls=("norm",))))
    with world.manager() as manager, world.runner() as runner:
        run_until(manager, lambda: all(world.task_state(eid) == "done" for eid in eids))
        runner.end_events()
    return eids


@pytest.mark.faults
@pytest.mark.parametrize("kills", [30])
def test_nothing_is_lost_or_doubled(kills: int) -> None:
    rng = random.Random(SEED)
    with stage_world(rows_per_chunk=5) as world:
        eids = _answer(world)
        expected = world.connection.execute(_ALL).fetchall()
        repeated = [_repeat(world, eid) for eid in eids]
        first = 1_000
        for _ in range(kills):
            process = start_copy(main, Path(world.settings.file))
            until = time.monotonic() + rng.uniform(0.5, 3)
            while time.monotonic() < until:
                expected += _add_events(world, first, rng)
                first += 10
                assert _read(world) == [(*row[:5], row[5] or None, *row[6:]) for row in expected]
            process.kill()
            process.join()
        archive = RevisionArchive(
            world.connection, storage.open_storage(world.settings), 0.0, timedelta(0)
        )
        archive.flush()
        archive.trim()
        assert _read(world) == [(*row[:5], row[5] or None, *row[6:]) for row in expected]
        row = world.connection.execute("SELECT count(*) FROM row_revisions").fetchone()
        assert row is not None and row[0] < len(expected) / 2, "most are trimmed"
        assert [_repeat(world, eid) for eid in eids] == repeated
        row = world.connection.execute("SELECT count(*) FROM revisions").fetchone()
        assert row == (RECALLS,), "the last answers stay"
        print(f"seed {SEED}: {len(expected)} revisions, {kills} kills", flush=True)
