"""Chunks whose files are deleted, and those that still wait for it; see also the property tests."""

from archiver.chunks.chunk import Chunk, ChunkState
from archiver.chunks.lifecycle import (
    DELETE_CHUNK,
    ChunkRecord,
    LifecyclePolicy,
    StateChange,
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
