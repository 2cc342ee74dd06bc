"""Chunks on their way from present to expired: states only go on, history is covered, work is asked for once."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from archiver.chunks.chunk import Chunk
from archiver.chunks.lifecycle import (
    CLUSTER,
    COUNT_ROWS,
    DELETE_CHUNK,
    ChunkRecord,
    LifecyclePolicy,
    MaintenanceTask,
    Requirement,
    StateChange,
    plan_steps,
)

NEED = Requirement(CLUSTER, frozenset({"recent", "old"}), 3)
ORDER = ["expired", "old", "recent", "present"]


def chunks(number: int) -> list[ChunkRecord]:
    """Present chunks of ten units of time each, the last one open."""
    ends = [10 * (n + 1) for n in range(number)]
    made = [
        Chunk(n, None if n == 0 else ends[n - 1], None if n == number - 1 else ends[n])
        for n in range(number)
    ]
    return [ChunkRecord(chunk) for chunk in made]


def apply(kept: list[ChunkRecord], found: list[StateChange | MaintenanceTask]) -> list[ChunkRecord]:
    """The catalog after some steps, all work done."""
    by_id = {one.chunk.id: one for one in kept}
    for step in found:
        one = by_id[step.chunk]
        if isinstance(step, StateChange):
            assert ORDER.index(step.state) == ORDER.index(one.chunk.state) - 1, (
                "no state is skipped, none goes back"
            )
            by_id[step.chunk] = replace(one, chunk=replace(one.chunk, state=step.state))
        else:
            by_id[step.chunk] = replace(
                one, completed_versions={**one.completed_versions, step.name: step.version}
            )
    return list(by_id.values())


@given(
    st.integers(1, 12),
    st.lists(st.tuples(st.integers(0, 130), st.integers(0, 40)), min_size=1, max_size=6),
    st.integers(1, 5),
    st.none() | st.integers(0, 60),
)
def test_states_go_on_and_work_is_asked_for_once(
    number: int, times: list[tuple[int, int]], recent: int, keep: int | None
) -> None:
    """Whatever event time does: closed chunks are recent, then old, expired when `keep` says so, and never else."""
    kept, policy = chunks(number), LifecyclePolicy(recent, keep, 0.0)
    watermark = newest = 0
    for at, ahead in times:
        watermark, newest = max(watermark, at), max(newest, at + ahead)
        kept = apply(kept, plan_steps(kept, policy, watermark, newest, [NEED]))
        kept = apply(kept, plan_steps(kept, policy, watermark, newest, [NEED]))
        assert plan_steps(kept, policy, watermark, newest, [NEED]) == []
        for one in kept:
            end, state = one.chunk.to_ts, one.chunk.state
            assert (state == "present") == (end is None or end > watermark)
            if state != "present":
                assert end is not None
                assert (state == "expired") == (keep is not None and end <= newest - keep)
                assert (
                    {COUNT_ROWS, DELETE_CHUNK} <= one.completed_versions.keys()
                    if state == "expired"
                    else CLUSTER in one.completed_versions
                )
        states = [one.chunk.state for one in kept]
        assert states == sorted(states, key=ORDER.index)
        closed = [state for state in states if state != "present"]
        assert all(state == "recent" for state in closed[-recent:] if state != "expired")
        assert closed.count("recent") <= recent


def test_files_stay_while_somebody_may_need_them() -> None:
    """Expired: counted at once, deleted after the grace, and not while a recall has the chunk before it."""
    one = ChunkRecord(Chunk(0, None, 10, "expired"))
    rest = chunks(3)[1:]
    policy = LifecyclePolicy(1, 5, 60.0)

    def asked(expired: float, pinned: set[int]) -> list[str]:
        now = replace(one, expired_seconds=expired, completed_versions=done)
        return [
            s.name
            for s in plan_steps([now, *rest], policy, 10, 30, [], pinned)
            if isinstance(s, MaintenanceTask)
        ]

    done: dict[str, int] = {}
    assert asked(100.0, set()) == [COUNT_ROWS]
    done = {COUNT_ROWS: 0}
    assert asked(59.0, set()) == []
    assert asked(61.0, {0}) == []
    assert asked(61.0, {1}) == [DELETE_CHUNK]


def test_late_rows_ask_for_clustering_again() -> None:
    """Not at once: when enough have come."""
    kept = [
        ChunkRecord(Chunk(0, None, 10, "recent"), version=2, completed_versions={CLUSTER: 0}),
        *chunks(2)[1:],
    ]
    policy = LifecyclePolicy(5, None, 0.0)
    assert plan_steps(kept, policy, 10, 10, [NEED]) == []
    assert plan_steps([replace(kept[0], version=3), kept[1]], policy, 10, 10, [NEED]) == [
        MaintenanceTask(0, CLUSTER, 3)
    ]
