"""Chunks whose files are deleted, and those that still wait for it; see also the property tests."""

from dataclasses import replace

from archiver.chunks.chunk import Chunk, ChunkState
from archiver.chunks.lifecycle import (
    DELETE_CHUNK,
    ChunkRecord,
    LifecyclePolicy,
    MaintenanceTask,
    StateChange,
    StreamEnd,
    last_deleted_chunk,
    plan_steps,
)


def record(number: int, state: ChunkState, *completed: str) -> ChunkRecord:
    chunk = Chunk(number, 10 * number, 10 * number + 10, state)
    return ChunkRecord(chunk, completed_versions=dict.fromkeys(completed, 0))


def test_expired_chunk_awaits_deletion_until_its_files_are_deleted() -> None:
    assert record(0, "expired").awaits_deletion
    assert not record(0, "expired", DELETE_CHUNK).awaits_deletion
    assert not record(0, "old").awaits_deletion


def test_last_deleted_chunk_has_only_deleted_chunks_before_it() -> None:
    records = [
        record(0, "expired", DELETE_CHUNK),
        record(1, "expired", DELETE_CHUNK),
        record(2, "expired"),
        record(3, "expired", DELETE_CHUNK),
    ]
    assert last_deleted_chunk(records) == records[1].chunk
    assert last_deleted_chunk(records[2:]) is None


def test_chunk_passes_through_all_states_in_order() -> None:
    policy = LifecyclePolicy(recent_chunks=1, retention=5, deletion_grace=0.0)
    steps = plan_steps([record(0, "present")], policy, watermark=10, newest=100, requirements=[])
    assert [step.state for step in steps if isinstance(step, StateChange)] == [
        "recent",
        "old",
        "expired",
    ]


def test_chunk_stays_present_without_a_watermark() -> None:
    policy = LifecyclePolicy(recent_chunks=1, retention=5, deletion_grace=0.0)
    records = [record(0, "present")]
    assert plan_steps(records, policy, watermark=None, newest=100, requirements=[]) == []


def test_rows_of_a_stream_expire_before_those_of_others() -> None:
    policy = LifecyclePolicy(1, 60, 10.0, stream_retention={"cpu": 20, "net": 500})

    def plan(*completed: str, seconds: float = 0.0, used: tuple[int, ...] = ()) -> list[object]:
        ended = replace(record(0, "old", *completed), ended_seconds={"end cpu": seconds})
        steps = plan_steps([ended, record(1, "present")], policy, 15, 30, [], used)
        return [step if isinstance(step, StreamEnd) else step.name for step in steps]  # type: ignore[union-attr]

    assert plan() == [StreamEnd(0, "cpu"), "count cpu"]
    assert plan("end cpu") == ["count cpu"]
    assert plan("end cpu", "count cpu") == []
    assert plan("end cpu", "count cpu", seconds=11.0, used=(0,)) == []
    assert plan("end cpu", "count cpu", seconds=11.0) == ["forget cpu"]
    assert plan("end cpu", "count cpu", "forget cpu", seconds=11.0) == []


def test_rows_of_a_stream_that_has_ended_are_counted_before_the_chunk() -> None:
    policy = LifecyclePolicy(1, 5, 0.0, stream_retention={"cpu": 2})

    def plan(*completed: str) -> list[str]:
        steps = plan_steps([record(0, "expired", *completed)], policy, 100, 100, [])
        return [step.name for step in steps if isinstance(step, MaintenanceTask)]

    assert plan("end cpu") == ["count cpu"]
    assert plan("end cpu", "count cpu") == ["forget cpu"]
    assert plan("end cpu", "count cpu", "forget cpu") == ["count"]
    assert plan() == ["count"]
