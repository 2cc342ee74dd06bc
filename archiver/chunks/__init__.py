"""Chunks: the intervals of event time that partition the archive, their states and maintenance."""

from archiver.chunks.chunk import (
    FIRST_CHUNK,
    Chunk,
    ChunkState,
    CutPolicy,
    NewestChunkStats,
    apply_cuts,
    locate,
    plan_cuts,
)
from archiver.chunks.lifecycle import (
    CLUSTER,
    COUNT_ROWS,
    DELETE_CHUNK,
    ChunkRecord,
    LifecyclePolicy,
    MaintenanceTask,
    Requirement,
    StateChange,
    awaits_deletion,
    last_deleted_chunk,
    plan_steps,
)
from archiver.chunks.maintenance import ChunkMaintenance, MaintenanceResult

__all__ = [
    "CLUSTER",
    "COUNT_ROWS",
    "Chunk",
    "ChunkMaintenance",
    "ChunkRecord",
    "ChunkState",
    "CutPolicy",
    "DELETE_CHUNK",
    "FIRST_CHUNK",
    "LifecyclePolicy",
    "MaintenanceResult",
    "MaintenanceTask",
    "NewestChunkStats",
    "Requirement",
    "StateChange",
    "apply_cuts",
    "awaits_deletion",
    "last_deleted_chunk",
    "locate",
    "plan_cuts",
    "plan_steps",
]
