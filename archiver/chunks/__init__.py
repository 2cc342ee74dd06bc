"""Chunks: the intervals of event time that partition the archive, their states and maintenance."""

from archiver.chunks.chunk import (
    FIRST_CHUNK,
    Chunk,
    ChunkState,
    CutPolicy,
    NewestChunkStats,
    apply_cuts,
    can_cut,
    locate,
    plan_cuts,
)
from archiver.chunks.compaction import Compaction, CompactionStep
from archiver.chunks.lifecycle import (
    COMPACT,
    ChunkRecord,
    LifecyclePolicy,
    MaintenanceTask,
    Requirement,
    StateChange,
    StreamEnd,
    last_deleted_chunk,
    plan_steps,
)
from archiver.chunks.maintenance import ChunkMaintenance, MaintenanceResult

__all__ = [
    "COMPACT",
    "Chunk",
    "ChunkMaintenance",
    "ChunkRecord",
    "ChunkState",
    "Compaction",
    "CompactionStep",
    "CutPolicy",
    "FIRST_CHUNK",
    "LifecyclePolicy",
    "MaintenanceResult",
    "MaintenanceTask",
    "NewestChunkStats",
    "Requirement",
    "StateChange",
    "StreamEnd",
    "apply_cuts",
    "can_cut",
    "last_deleted_chunk",
    "locate",
    "plan_cuts",
    "plan_steps",
]
