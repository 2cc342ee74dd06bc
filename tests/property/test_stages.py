"""After the last revision, stages equal one batch evaluation over live data and whole history.

For random rows, chunk borders, chains of stages and points at which the recall process and its
runner are killed. Replaying the revisions leads to the same rows; after the boundary nothing is
kept.
"""

import random
from collections import defaultdict
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from recall.event_plans import EventPlan, Stage
from recall.ledger.commands import Target, Verb, submit_command
from recall.requests import Piece, task_id
from tests.stage_world import (
    ATTRIBUTES,
    NORM_COLUMNS,
    RULE,
    VERSION,
    Row,
    StageWorld,
    micros,
    stage,
    stage_world,
)

pytestmark = pytest.mark.services

HOSTS = "abcde"
WITHIN = 20.0
DELAY = 5.0
EVENT_AT = 300.0
ENDED = ("done", "failed", "cancelled", "finalized")
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)


def _plan(analysis: str, chain: int) -> EventPlan:
    """A filter over the recall, a join with live rows, and an aggregate over these."""
    key = {"site": "string"}
    light = {"host": "string", "mean": "double"}
    joined = {"host": "string", "v": "double", "mean": "double"}
    stages: list[Stage] = [
        stage(
            "light",
            "SELECT n.host, n.mean FROM norm n WHERE n.mean < event.limit",
            {"norm": {**key, **NORM_COLUMNS}},
            light,
        ),
        stage(
            "joined",
            "SELECT l.host, p.v, l.mean FROM light l JOIN load p ON p.host = l.host",
            {"light": {**key, **light}},
            joined,
            live=True,
            within=WITHIN,
            delay=DELAY,
            analysis=analysis,
        ),
        stage(
            "summary",
            "SELECT j.host, count(*) AS n, max(j.v) AS top FROM joined j GROUP BY j.host "
            "HAVING count(*) > 1",
            {"joined": {**key, **joined}},
            {"host": "string", "n": "bigint", "top": "double"},
        ),
    ]
    return EventPlan(
        recalls=("norm",),
        stages=tuple(stages[:chain]),
        attributes=ATTRIBUTES,
        key_types=key,
        every=0.0,
    )


def _batch(
    history: list[Row], live: list[Row], analysis: str, limit: float
) -> dict[str, list[dict[str, Any]]]:
    """All stages over all rows at once, in Python."""
    values = defaultdict(list)
    for _, host, value in history:
        values[host].append(value)
    means = {host: sum(v) / len(v) for host, v in values.items()}
    light = [{"host": host, "mean": mean} for host, mean in means.items() if mean < limit]
    joined = []
    for row in light:
        for at, host, value in live:
            is_inside = at >= EVENT_AT - WITHIN and (
                analysis == "present" or at <= EVENT_AT + DELAY
            )
            if host == row["host"] and is_inside:
                joined.append({"host": host, "v": value, "mean": row["mean"]})
    groups = defaultdict(list)
    for row in joined:
        groups[row["host"]].append(row["v"])
    summary = [
        {"host": host, "n": len(v), "top": max(v)} for host, v in groups.items() if len(v) > 1
    ]
    return {"light": light, "joined": joined, "summary": summary}


def _normalize(rows: list[dict[str, Any]]) -> list[Any]:
    """Rows in an order of their own, fractions rounded: sums depend on the order of pieces."""
    return sorted(
        tuple(
            (name, round(value, 6) if isinstance(value, float) else value)
            for name, value in sorted(row.items())
        )
        for row in rows
    )


def _rows_read(world: StageWorld, eid: UUID, history: list[Row]) -> list[Row]:
    """The rows in the pieces of history that the recall has read."""
    pieces, reads = world.connection.execute(
        "SELECT pieces, seen FROM tasks WHERE id = %s", (task_id(RULE, VERSION, "norm", eid),)
    ).fetchone() or ([], [])
    ranges = []
    for first, end, append_counts in reads:
        if append_counts is not None:
            ranges += [Piece.from_json(piece).range for piece in pieces[first:end]]
    return [row for row in history if any(part.contains(micros(row[0])) for part in ranges)]


def _run(
    world: StageWorld,
    seed: int,
    analysis: str,
    chain: int,
    *,
    command: Verb | None = None,
    damaged: float = 0.0,
) -> None:
    """`command`: given at some point while the recall runs.

    `damaged`: the share of the chunks before the windows of live rows that cannot be read.
    """
    rng = random.Random(seed)
    limit = rng.uniform(2.0, 8.0)
    at = 0.0
    history: list[Row] = []
    while at < EVENT_AT - 1:
        history.append((at, rng.choice(HOSTS), round(rng.gauss(5, 3), 3)))
        at += rng.uniform(0.5, 4.0)
    world.ingest(history)
    world.damage_chunks(EVENT_AT - WITHIN, damaged, rng)
    eid = world.request(1, EVENT_AT, _plan(analysis, chain), limit=limit)
    command_round = rng.randrange(1, 4)
    rounds = 0
    batches = []
    for _ in range(rng.randrange(1, 5)):
        end = at + rng.uniform(1, 12)
        batch: list[Row] = []
        while at < end:
            batch.append((at, rng.choice(HOSTS), round(rng.gauss(5, 3), 3)))
            at += rng.uniform(0.2, 2.0)
        batches.append(batch)
    rows_at_boundary: list[tuple[Row, bool]] = []
    while world.task_state(eid) not in ENDED or batches:
        # Each round of this loop is a process that is killed at its end.
        with world.manager() as manager, world.runner() as runner:
            for _ in range(rng.randrange(2, 12)):
                if world.task_state(eid) not in ENDED:
                    rounds += 1
                    if command is not None and rounds == command_round:
                        submit_command(
                            world.connection, str(eid), command, Target(eid=str(eid)), "tests"
                        )
                    manager.run_once()
                    manager.wait_for_query()
                elif batches and rng.random() < 0.7:
                    # Only after the recall: rows of after the event are not its history.
                    world.ingest(batches.pop(0))
                    if rng.random() < 0.3:  # late: neither stage sees it
                        world.ingest([(rng.uniform(0, EVENT_AT), rng.choice(HOSTS), 1000.0)])
                if rng.random() < 0.7:
                    runner.run_once()
                if not rows_at_boundary and world.has_ended(eid):
                    rows_at_boundary = list(world.rows)
    world.ingest([(at + 1000.0, "z", 0.0)])  # all watermarks pass the event
    with world.runner() as runner:
        runner.run_once()
        runner.end_events()
        assert runner.rows_in_memory == 0
    assert world.has_ended(eid)
    on_time = [row for row, is_late in rows_at_boundary or world.rows if not is_late]
    state = world.task_state(eid)
    if state in ("failed", "cancelled"):  # also if killed three times at one piece: no rows
        history = []
    else:  # those of chunks that could not be read are left out
        history = _rows_read(world, eid, history)
    expected = _batch(history, on_time, analysis, limit)
    for name in list(expected)[:chain]:
        assert _normalize(world.replayed(name, eid)) == _normalize(expected[name]), name
        revisions = world.revisions(name)
        assert [seq for seq, *_ in revisions] == list(range(1, len(revisions) + 1))
        assert [op for _, op, *_ in revisions].count("boundary") == 1
        assert revisions[-1][1] == "boundary"


_SEEDS = st.integers(0, 1 << 30)


def _examples(count: int) -> settings:
    return settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        phases=PHASES,
        suppress_health_check=list(HealthCheck),
    )


@pytest.mark.parametrize(
    ("analysis", "chain", "damaged"),
    [
        ("event", 2, 0.4),
        pytest.param("event", 3, 0.0, marks=pytest.mark.slow),
        pytest.param("present", 2, 0.0, marks=pytest.mark.slow),
        pytest.param("present", 3, 0.4, marks=pytest.mark.slow),
    ],
)
@given(seed=_SEEDS, rows_per_chunk=st.integers(8, 60))
@_examples(1)
def test_stages_equal_a_batch_evaluation(
    analysis: str, chain: int, damaged: float, seed: int, rows_per_chunk: int
) -> None:
    with stage_world(rows_per_chunk) as world:
        _run(world, seed, analysis, chain, damaged=damaged)


@pytest.mark.parametrize(
    ("analysis", "command", "damaged"),
    [
        pytest.param("event", "accelerate", 0.4, marks=pytest.mark.slow),
        ("present", "cancel", 0.0),
        pytest.param("present", "finalize", 0.4, marks=pytest.mark.slow),
    ],
)
@given(seed=_SEEDS, rows_per_chunk=st.integers(8, 40))
@_examples(1)
def test_stages_follow_commands(
    analysis: str,
    command: Verb,
    damaged: float,
    seed: int,
    rows_per_chunk: int,
) -> None:
    with stage_world(rows_per_chunk) as world:
        _run(world, seed, analysis, 3, command=command, damaged=damaged)


@pytest.mark.slow
@given(
    seed=_SEEDS,
    analysis=st.sampled_from(["event", "present"]),
    chain=st.sampled_from([2, 3]),
    command=st.sampled_from([None, None, "accelerate", "cancel", "finalize"]),
    rows_per_chunk=st.integers(8, 60),
    damaged=st.sampled_from([0.0, 0.2, 0.6, 1.0]),
)
@_examples(100)
def test_stages_equal_a_batch_evaluation_in_many_cases(
    seed: int,
    analysis: str,
    chain: int,
    command: Verb | None,
    rows_per_chunk: int,
    damaged: float,
) -> None:
    with stage_world(rows_per_chunk) as world:
        _run(world, seed, analysis, chain, command=command, damaged=damaged)
