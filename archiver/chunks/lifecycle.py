"""What becomes of chunks as event time moves on: present → recent → old → expired. Pure: values in, steps out.

A step is either a state, which holds for readers from the moment it is written, or work to be done for a chunk, which
takes its time, may be repeated, and is recorded when it is done.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from archiver.chunks.chunk import Chunk, ChunkState

# The Archiver's own work: rewriting files clustered by key and time; counting the rows of an expired chunk, so that the
# ledger stays true without them; deleting its files.
CLUSTER, COUNT_ROWS, DELETE_CHUNK = "cluster", "count", "forget"


@dataclass(frozen=True)
class LifecyclePolicy:
    """`recent`: how many closed chunks are recent. `keep`: microseconds of event time behind the newest; None: for
    ever. `grace`: seconds by the clock from a chunk's expiry to the deletion of its files, in which those who found it
    just before come to name it as theirs."""

    recent_chunks: int
    retention: int | None
    deletion_grace: float


@dataclass(frozen=True)
class Requirement:
    """Work by name that is done once for each chunk in one of `states`; and again when rows have come late into it
    `again` times since (None: never)."""

    name: str
    states: frozenset[ChunkState]
    repeat_after: int | None = None


@dataclass(frozen=True)
class ChunkRecord:
    """A chunk with what the catalog knows of it. `version`: how often rows came late into it; `done`: the work that was
    done for it, at which version; `expired`: seconds by the clock since it expired."""

    chunk: Chunk
    version: int = 0
    completed_versions: Mapping[str, int] = field(default_factory=dict)
    expired_seconds: float = 0.0


@dataclass(frozen=True)
class StateChange:
    """A chunk's new state."""

    chunk: int
    state: ChunkState


@dataclass(frozen=True)
class MaintenanceTask:
    """Something to do for a chunk, at a version of it."""

    chunk: int
    name: str
    version: int


LifecycleStep = StateChange | MaintenanceTask


def plan_steps(
    records: Sequence[ChunkRecord],
    policy: LifecyclePolicy,
    watermark: int | None,
    newest: int | None,
    requirements: Sequence[Requirement],
    chunks_in_use: Collection[int] = (),
) -> list[LifecycleStep]:
    """What is to be done now, states first, the newest chunk's work first.

    `watermark`: of all streams, `newest`: the furthest of any, both in microseconds of event time. `pinned`: chunks
    that running recalls may still read. A chunk goes through its states one by one, several at once if need be.
    """
    states = _target_states(records, policy, watermark, newest)
    changed: list[LifecycleStep] = [
        StateChange(k.chunk.id, state)
        for k in records
        for state in _states_between(k.chunk.state, states[k.chunk.id])
    ]
    work: list[LifecycleStep] = []
    for one in reversed(records):
        now = replace(one, chunk=replace(one.chunk, state=states[one.chunk.id]))
        work += [
            MaintenanceTask(now.chunk.id, name, now.version)
            for name in _due_tasks(now, policy, requirements, chunks_in_use)
        ]
    return changed + work


def last_deleted_chunk(records: Sequence[ChunkRecord]) -> Chunk | None:
    """The newest of the oldest chunks that are all gone, files and all; None: there is none."""
    gone = list(
        takewhile(
            lambda one: one.chunk.state == "expired" and DELETE_CHUNK in one.completed_versions,
            records,
        )
    )
    return gone[-1].chunk if gone else None


_STATE_ORDER: tuple[ChunkState, ...] = ("present", "recent", "old", "expired")


def _states_between(before: ChunkState, after: ChunkState) -> tuple[ChunkState, ...]:
    return _STATE_ORDER[_STATE_ORDER.index(before) + 1 : _STATE_ORDER.index(after) + 1]


def _target_states(
    kept: Sequence[ChunkRecord], policy: LifecyclePolicy, watermark: int | None, newest: int | None
) -> dict[int, ChunkState]:
    """The state that each chunk should have; none goes back."""
    states: dict[int, ChunkState] = {}
    closed = 0
    for one in reversed(kept):
        chunk = one.chunk
        ended = chunk.to_ts is not None and watermark is not None and chunk.to_ts <= watermark
        if chunk.state == "present" and not ended:
            states[chunk.id] = "present"
            continue
        closed += 1
        wanted: ChunkState = "recent" if closed <= policy.recent_chunks else "old"
        if policy.retention is not None and newest is not None and chunk.to_ts is not None:
            wanted = "expired" if chunk.to_ts <= newest - policy.retention else wanted
        states[chunk.id] = max(wanted, chunk.state, key=_STATE_ORDER.index)
    return states


def _due_tasks(
    one: ChunkRecord, policy: LifecyclePolicy, needs: Sequence[Requirement], pinned: Collection[int]
) -> list[str]:
    if one.chunk.state == "expired":
        if COUNT_ROWS not in one.completed_versions:
            return [COUNT_ROWS]
        free = one.expired_seconds >= policy.deletion_grace and one.chunk.id not in pinned
        return [DELETE_CHUNK] if free and DELETE_CHUNK not in one.completed_versions else []
    return [
        need.name for need in needs if one.chunk.state in need.states and _is_missing(one, need)
    ]


def _is_missing(one: ChunkRecord, need: Requirement) -> bool:
    done = one.completed_versions.get(need.name)
    return done is None or (
        need.repeat_after is not None and one.version - done >= need.repeat_after
    )
