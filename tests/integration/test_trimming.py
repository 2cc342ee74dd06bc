"""What ended recalls leave is trimmed, and nothing of what is promised is lost with it."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from archiver.times import from_micros
from moirae.runtime import storage
from recall.event_plans import EventPlan
from recall.ledger.revision_archive import RevisionArchive
from recall.ledger.revision_reader import RevisionReader, read_revisions
from recall.ledger.row_revisions import EventOutput, RevisionStreams
from recall.ledger.trimming import TRIM_AGE
from recall.replay import ReplayedAnswer, SqlReplayer, replay
from recall.revisions.changes import RowChange, diff
from recall.revisions.row_keys import key_rows
from tests.integration.history import no_relations, no_spark, run_until
from tests.stage_world import RULE, SCHEMA, VERSION, StageWorld, micros, stage, stage_world

LIGHT = stage(
    "light", "SELECT n.host FROM norm n", {"norm": {"host": "string"}}, {"host": "string"}
)
MEANS: tuple[dict[str, float], ...] = ({"a": 1.0, "b": 2.0}, {"a": 1.5, "c": 3.0}, {"c": 3.0})


@pytest.fixture
def world() -> Iterator[StageWorld]:
    with stage_world(rows_per_chunk=5) as new_world:
        yield new_world


def archive(world: StageWorld, age: timedelta = timedelta(0)) -> RevisionArchive:
    return RevisionArchive(world.connection, storage.open_storage(world.settings), 0.0, age)


def answer(world: StageWorld, number: int, at: float, *, is_ended: bool = True) -> EventOutput:
    """Row revisions of the recall `norm` about an event, with its boundary."""
    output = EventOutput(RULE, VERSION, "norm", UUID(int=number), micros(at))
    streams = RevisionStreams(world.connection)
    before: dict[str, Any] = {}
    for means in MEANS:
        after = key_rows([{"host": host, "mean": mean} for host, mean in means.items()], ("host",))
        streams.append(output, diff(before, after))
        before = after
    if is_ended:
        streams.append(output, [RowChange("boundary", "")])
    return output


def revisions_of(world: StageWorld, limit: int | None = None) -> list[tuple[Any, ...]]:
    """All revisions of the recall, page by page."""
    root = storage.open_storage(world.settings)
    revisions: list[tuple[Any, ...]] = []
    while True:
        batch = read_revisions(
            world.connection, root, "norm", revisions[-1][0] if revisions else 0, limit
        )
        if not batch.revisions:
            return revisions
        for row in batch.revisions:
            fields = row.seq, row.eid, row.version, row.ts, row.op, row.row_key
            revisions.append((*fields, row.row, row.old_row))


def event_rows(world: StageWorld, all_revisions: bool) -> list[Any]:
    reader = RevisionReader(world.connection, storage.open_storage(world.settings))
    return reader.read_events(
        RULE,
        "norm",
        all_revisions=all_revisions,
        start=from_micros(micros(11)),
        end=from_micros(micros(30)),
    )


def test_trimmed_revisions_are_read_from_the_archive(world: StageWorld) -> None:
    for number, at in ((1, 10), (2, 12), (3, 20), (4, 30)):
        world.request(number, at, EventPlan(recalls=("norm",)))
        answer(world, number, at, is_ended=number != 3)
    before = revisions_of(world)
    present, all_rows = event_rows(world, False), event_rows(world, True)
    archiving = archive(world)
    archiving.trim()
    assert revisions_of(world) == before, "nothing is archived yet"
    assert len(world.revisions("norm")) == len(before)
    archiving.flush()
    archiving.trim()
    assert {UUID(int=3)} == {row[1] for row in _stored(world)}, "its event is open"
    assert revisions_of(world) == before
    assert revisions_of(world, limit=2) == before
    assert event_rows(world, False) == present
    assert event_rows(world, True) == all_rows
    # Later revisions go on behind them.
    answer(world, 5, 40)
    assert revisions_of(world)[: len(before)] == before
    numbers = [row[0] for row in revisions_of(world, limit=3)]
    assert numbers == list(range(1, len(numbers) + 1))
    root = storage.open_storage(world.settings)
    batch = read_revisions(world.connection, root, "norm", limit=None)
    assert [row.seq for row in batch.revisions] == numbers, "all at once"


def test_revisions_stay_for_some_time(world: StageWorld) -> None:
    world.request(1, 10, EventPlan(recalls=("norm",)))
    answer(world, 1, 10)
    stored = _stored(world)
    archiving = archive(world, TRIM_AGE)
    archiving.flush()
    archiving.trim()
    assert _stored(world) == stored


def test_rows_of_stages_stay(world: StageWorld) -> None:
    plan = EventPlan(recalls=("norm",), stages=(LIGHT,))
    world.ingest([(second, "a", 1.0) for second in range(20)])
    eid = world.request(1, 12, plan)
    with world.manager() as manager, world.runner() as runner:
        run_until(manager, lambda: world.task_state(eid) == "done")
        runner.run_once()
        runner.end_events()
    assert world.has_ended(eid)
    rows = world.revisions("light")
    archiving = archive(world)
    archiving.flush()
    archiving.trim()
    assert world.revisions("light") == rows
    assert world.revisions("norm") == []


def test_only_the_last_answer_stays_and_is_repeated(world: StageWorld) -> None:
    world.ingest([(second, "a", float(second)) for second in range(40)])
    eid = world.request(1, 37.5, EventPlan(recalls=("norm",)))
    with world.manager() as manager, world.runner() as runner:
        run_until(manager, lambda: world.task_state(eid) == "done")
        archive(world).trim()
        assert _answers(world) > 1, "the event may get further answers"
        runner.end_events()
    assert world.has_ended(eid)
    shown = _shown(world)
    repeated = _repeat(world, eid)
    assert repeated.equal and repeated.answer
    archiving = archive(world)
    archiving.trim()
    assert _answers(world) == 1
    assert _shown(world) == shown
    assert _repeat(world, eid) == repeated
    row = world.connection.execute("SELECT jsonb_array_length(pieces) FROM tasks").fetchone()
    assert row is not None and row[0] <= 2
    archiving.trim()
    assert _repeat(world, eid) == repeated


def test_late_rows_are_counted_after_trimming(world: StageWorld) -> None:
    _ask_and_trim(world)
    world.ingest([(3.2, "a", 9.0), (3.5, "a", 9.0)])
    changed = world.connection.execute("SELECT changed_since_read(t) FROM tasks t").fetchone()
    assert changed == (1,)


def test_deleted_chunk_is_the_reason_why_an_answer_cannot_be_repeated(world: StageWorld) -> None:
    eid = _ask_and_trim(world)
    world.connection.execute("DELETE FROM chunks WHERE id = (SELECT min(id) FROM chunks)")
    repeated = _repeat(world, eid)
    assert repeated.equal is None
    assert repeated.why is not None and "has been deleted" in repeated.why


def _ask_and_trim(world: StageWorld) -> UUID:
    """The event of a recall that has ended and is trimmed."""
    world.ingest([(second, "a", float(second)) for second in range(40)])
    eid = world.request(1, 37.5, EventPlan(recalls=("norm",)))
    with world.manager() as manager, world.runner() as runner:
        run_until(manager, lambda: world.task_state(eid) == "done")
        runner.end_events()
    archive(world).trim()
    return eid


def _stored(world: StageWorld) -> list[tuple[Any, ...]]:
    return world.connection.execute("SELECT seq, eid FROM row_revisions ORDER BY seq").fetchall()


def _answers(world: StageWorld) -> int:
    row = world.connection.execute("SELECT count(*) FROM revisions").fetchone()
    assert row is not None
    return int(row[0])


def _shown(world: StageWorld) -> list[tuple[Any, ...]]:
    """What the dashboard and exports show of recalls."""
    return world.connection.execute(
        "SELECT v.*, r.answer, r.coverage FROM dashboard.recalls v JOIN LATERAL (SELECT * FROM revisions"
        " WHERE task = v.id ORDER BY number DESC LIMIT 1) r ON true"
    ).fetchall()


def _repeat(world: StageWorld, eid: UUID) -> ReplayedAnswer:
    replayer = SqlReplayer(
        world.connection, storage.open_storage(world.settings), [SCHEMA], no_spark, no_relations
    )
    (repeated,) = replay(world.connection, eid, {"sql": replayer})
    return repeated
