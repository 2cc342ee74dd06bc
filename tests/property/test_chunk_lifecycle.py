"""Lifecycle of chunks: states only advance, and each maintenance task is due once."""

from dataclasses import replace
from itertools import pairwise

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

CLUSTERING = Requirement(CLUSTER, frozenset({"recent", "old"}), 3)
STATE_ORDER = ["expired", "old", "recent", "present"]


def present_chunks(number: int) -> list[ChunkRecord]:
    """Present chunks of 10 µs each, the last one without an end."""
    bounds = [None, *range(10, 10 * number, 10), None]
    return [
        ChunkRecord(Chunk(index, start, end)) for index, (start, end) in enumerate(pairwise(bounds))
    ]


def apply_steps(
    records: list[ChunkRecord], steps: list[StateChange | MaintenanceTask]
) -> list[ChunkRecord]:
    """The catalog after the state changes, with all tasks completed."""
    records_by_id = {record.chunk.id: record for record in records}
    for step in steps:
        record = records_by_id[step.chunk]
        if isinstance(step, StateChange):
            position = STATE_ORDER.index(record.chunk.state)
            assert STATE_ORDER.index(step.state) == position - 1, "skipped a state or went back"
            chunk = replace(record.chunk, state=step.state)
            records_by_id[step.chunk] = replace(record, chunk=chunk)
        else:
            versions = {**record.completed_versions, step.name: step.version}
            records_by_id[step.chunk] = replace(record, completed_versions=versions)
    return list(records_by_id.values())


@given(
    st.integers(1, 12),
    st.lists(st.tuples(st.integers(0, 130), st.integers(0, 40)), min_size=1, max_size=6),
    st.integers(1, 5),
    st.none() | st.integers(0, 60),
)
def test_states_only_advance_and_tasks_are_due_once(
    number: int, times: list[tuple[int, int]], recent: int, retention: int | None
) -> None:
    """Closed chunks are recent, then old; they expire after the retention and not before."""
    records, policy = present_chunks(number), LifecyclePolicy(recent, retention, 0.0)
    watermark = newest = 0
    for at, ahead in times:
        watermark, newest = max(watermark, at), max(newest, at + ahead)
        records = apply_steps(records, plan_steps(records, policy, watermark, newest, [CLUSTERING]))
        records = apply_steps(records, plan_steps(records, policy, watermark, newest, [CLUSTERING]))
        assert plan_steps(records, policy, watermark, newest, [CLUSTERING]) == []
        for record in records:
            end, state = record.chunk.to_ts, record.chunk.state
            assert (state == "present") == (end is None or end > watermark)
            if state != "present":
                assert end is not None
                assert (state == "expired") == (retention is not None and end <= newest - retention)
                assert (
                    {COUNT_ROWS, DELETE_CHUNK} <= record.completed_versions.keys()
                    if state == "expired"
                    else CLUSTER in record.completed_versions
                )
        states = [record.chunk.state for record in records]
        assert states == sorted(states, key=STATE_ORDER.index)
        closed = [state for state in states if state != "present"]
        assert all(state == "recent" for state in closed[-recent:] if state != "expired")
        assert closed.count("recent") <= recent


def test_expired_chunk_is_deleted_after_grace_unless_in_use() -> None:
    """Its rows are counted before the grace period is over."""
    chunk = Chunk(0, None, 10, "expired")
    policy = LifecyclePolicy(1, 5, 60.0)

    def due_tasks(
        completed: dict[str, int], expired_seconds: float, chunks_in_use: set[int]
    ) -> list[str]:
        record = ChunkRecord(chunk, 0, completed, expired_seconds)
        records = [record, *present_chunks(3)[1:]]
        steps = plan_steps(records, policy, 10, 30, [], chunks_in_use)
        return [step.name for step in steps if isinstance(step, MaintenanceTask)]

    assert due_tasks({}, 100.0, set()) == [COUNT_ROWS]
    assert due_tasks({COUNT_ROWS: 0}, 59.0, set()) == []
    assert due_tasks({COUNT_ROWS: 0}, 61.0, {0}) == []
    assert due_tasks({COUNT_ROWS: 0}, 61.0, {1}) == [DELETE_CHUNK]


def test_chunk_is_clustered_again_after_enough_late_appends() -> None:
    records = [
        ChunkRecord(Chunk(0, None, 10, "recent"), version=2, completed_versions={CLUSTER: 0}),
        *present_chunks(2)[1:],
    ]
    policy = LifecyclePolicy(5, None, 0.0)
    assert plan_steps(records, policy, 10, 10, [CLUSTERING]) == []
    assert plan_steps(
        [replace(records[0], version=3), records[1]], policy, 10, 10, [CLUSTERING]
    ) == [MaintenanceTask(0, CLUSTER, 3)]
