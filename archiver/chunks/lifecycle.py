"""The lifecycle of chunks: present → recent → old → expired, and the maintenance tasks due. No I/O.

A step is either a state change, which applies to readers as soon as it is stored, or a maintenance
task, which takes time, may be repeated after a crash, and is recorded when it has finished.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from operator import attrgetter

from archiver.chunks.chunk import Chunk, ChunkState
from archiver.times import Micros

# Names of the tasks of the archive itself, as stored in the catalog.
CLUSTER = "cluster"  # rewrite files clustered by key and time
COMPACT = "compact"  # rewrite files that are not compact; not recorded: their names tell
COUNT_ROWS = "count"  # count the rows of an expired chunk, which the ledger must not lose
DELETE_CHUNK = "forget"  # delete the files of an expired chunk
_END = "end"  # with a stream: its rows in a chunk have expired


@dataclass(frozen=True)
class LifecyclePolicy:
    """When chunks change their state.

    `recent_chunks`: number of closed chunks that are recent. `retention`: event time before the
    newest after which chunks expire; None: never. `stream_retention`: the same of single streams,
    whose rows end there. `deletion_grace`: seconds between the expiry of
    a chunk and the deletion of its files, so that a recall that was about to read it can still
    register its use.
    """

    recent_chunks: int
    retention: Micros | None
    deletion_grace: float
    stream_retention: Mapping[str, Micros] = field(default_factory=dict)


@dataclass(frozen=True)
class Requirement:
    """A task that is due once for each chunk in one of `states`.

    It is due again when late rows were added to the chunk `repeat_after` times since; None: never.
    """

    name: str
    states: frozenset[ChunkState]
    repeat_after: int | None = None


@dataclass(frozen=True)
class ChunkRecord:
    """A chunk with what the catalog records about it.

    `version`: how many times late rows were added to it. `completed_versions`: by name of a
    completed task, the version at which it ran. `expired_seconds`: time since the chunk expired;
    `ended_seconds`: since the rows of a stream did, by the name of the end.
    """

    chunk: Chunk
    version: int = 0
    completed_versions: Mapping[str, int] = field(default_factory=dict)
    expired_seconds: float = 0.0
    ended_seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_clustered(self) -> bool:
        """Whether the files were clustered; late rows may have been added since."""
        return CLUSTER in self.completed_versions

    @property
    def is_counted(self) -> bool:
        """Whether the rows of an expired chunk were counted: its files may be gone from then on."""
        return COUNT_ROWS in self.completed_versions

    @property
    def is_deleted(self) -> bool:
        """Whether the chunk is expired and its files are deleted."""
        return self.chunk.state == "expired" and DELETE_CHUNK in self.completed_versions

    @property
    def awaits_deletion(self) -> bool:
        """Whether the chunk is expired and its files are not deleted yet."""
        return self.chunk.state == "expired" and DELETE_CHUNK not in self.completed_versions


@dataclass(frozen=True)
class StateChange:
    """The next state of a chunk."""

    chunk: int
    state: ChunkState


@dataclass(frozen=True)
class StreamEnd:
    """The rows of a stream in a chunk have expired; those of other streams have not."""

    chunk: int
    stream: str

    @property
    def name(self) -> str:
        """The name under which it is recorded, see `ChunkGateway.stream_ends`."""
        return _stream_task(_END, self.stream)


@dataclass(frozen=True)
class MaintenanceTask:
    """A task to run for a chunk at a version of it. `name`: see `Requirement`."""

    chunk: int
    name: str
    version: int


LifecycleStep = StateChange | StreamEnd | MaintenanceTask

_STATE_ORDER: tuple[ChunkState, ...] = ("present", "recent", "old", "expired")


def plan_steps(
    records: Sequence[ChunkRecord],
    policy: LifecyclePolicy,
    watermark: Micros | None,
    newest: Micros | None,
    requirements: Sequence[Requirement],
    chunks_in_use: Collection[int] = (),
) -> list[LifecycleStep]:
    """The steps due now: state changes first, then tasks, those of the newest chunk first.

    `watermark`: the lowest of all streams, `newest`: the highest event time.
    `chunks_in_use`: chunks that running recalls may still read. A chunk passes through all states
    in order; one call may return several changes of a chunk.
    """
    states = _target_states(records, policy, watermark, newest)
    changes: list[LifecycleStep] = []
    for record in records:
        chunk = record.chunk
        for state in _states_between(chunk.state, states[chunk.id]):
            changes.append(StateChange(chunk.id, state))
    tasks: list[LifecycleStep] = []
    for record in reversed(records):
        chunk = replace(record.chunk, state=states[record.chunk.id])
        changed_record = replace(record, chunk=chunk)
        if chunk.state in ("recent", "old"):
            ends = _find_ends(record, policy, newest)
            changes += ends
            ended = {**record.completed_versions, **{end.name: 0 for end in ends}}
            changed_record = replace(changed_record, completed_versions=ended)
        for name in _due_tasks(changed_record, policy, requirements, chunks_in_use):
            tasks.append(MaintenanceTask(chunk.id, name, record.version))
    return changes + tasks


def last_deleted_chunk(records: Sequence[ChunkRecord]) -> Chunk | None:
    """The newest chunk that is deleted together with all chunks before it; None without any."""
    deleted = list(takewhile(attrgetter("is_deleted"), records))
    return deleted[-1].chunk if deleted else None


def split_task(name: str) -> tuple[str, str]:
    """A name of a task and the stream that it is for; "": for all."""
    task, _, stream = name.partition(" ")
    return task, stream


def _stream_task(task: str, stream: str) -> str:
    return f"{task} {stream}"


def _find_ends(
    record: ChunkRecord, policy: LifecyclePolicy, newest: Micros | None
) -> list[StreamEnd]:
    """The streams whose rows in a chunk expire now."""
    ends: list[StreamEnd] = []
    for stream, retention in policy.stream_retention.items():
        end = StreamEnd(record.chunk.id, stream)
        is_over = _is_before(record.chunk, retention, newest)
        if is_over and end.name not in record.completed_versions:
            ends.append(end)
    return ends


def _states_between(before: ChunkState, after: ChunkState) -> tuple[ChunkState, ...]:
    """The states after `before`, up to and including `after`."""
    return _STATE_ORDER[_STATE_ORDER.index(before) + 1 : _STATE_ORDER.index(after) + 1]


def _target_states(
    records: Sequence[ChunkRecord],
    policy: LifecyclePolicy,
    watermark: Micros | None,
    newest: Micros | None,
) -> dict[int, ChunkState]:
    """The state that each chunk should have, by chunk id. States never go back."""
    states: dict[int, ChunkState] = {}
    closed_chunks = 0
    for record in reversed(records):
        chunk = record.chunk
        if chunk.state == "present" and not _is_closed(chunk, watermark):
            states[chunk.id] = "present"
            continue
        closed_chunks += 1
        state: ChunkState = "old"
        if _is_expired(chunk, policy, newest):
            state = "expired"
        elif closed_chunks <= policy.recent_chunks:
            state = "recent"
        states[chunk.id] = max(state, chunk.state, key=_STATE_ORDER.index)
    return states


def _is_closed(chunk: Chunk, watermark: Micros | None) -> bool:
    return chunk.to_ts is not None and watermark is not None and chunk.to_ts <= watermark


def _is_expired(chunk: Chunk, policy: LifecyclePolicy, newest: Micros | None) -> bool:
    return policy.retention is not None and _is_before(chunk, policy.retention, newest)


def _is_before(chunk: Chunk, retention: Micros, newest: Micros | None) -> bool:
    """Whether all rows of a chunk are older than a time before the newest."""
    if newest is None or chunk.to_ts is None:
        return False
    return chunk.to_ts <= newest - retention


def _due_tasks(
    record: ChunkRecord,
    policy: LifecyclePolicy,
    requirements: Sequence[Requirement],
    chunks_in_use: Collection[int],
) -> list[str]:
    """The names of the tasks that are due for a chunk."""
    chunk = record.chunk
    stream_tasks, is_pending = _due_stream_tasks(record, policy, chunks_in_use)
    if chunk.state != "expired":
        return stream_tasks + [
            requirement.name
            for requirement in requirements
            if chunk.state in requirement.states and _is_due(record, requirement)
        ]
    if is_pending:  # the rows of a stream are counted once
        return stream_tasks
    if not record.is_counted:
        return [COUNT_ROWS]
    grace_is_over = record.expired_seconds >= policy.deletion_grace
    if record.awaits_deletion and grace_is_over and chunk.id not in chunks_in_use:
        return [DELETE_CHUNK]
    return []


def _due_stream_tasks(
    record: ChunkRecord, policy: LifecyclePolicy, chunks_in_use: Collection[int]
) -> tuple[list[str], bool]:
    """The tasks that are due for streams that have ended in a chunk; whether any is to come."""
    tasks: list[str] = []
    is_pending = False
    for name in sorted(record.completed_versions):
        task, stream = split_task(name)
        if task != _END:
            continue
        count, delete = _stream_task(COUNT_ROWS, stream), _stream_task(DELETE_CHUNK, stream)
        if delete in record.completed_versions:
            continue
        is_pending = True
        grace_is_over = record.ended_seconds.get(name, 0.0) >= policy.deletion_grace
        if count not in record.completed_versions:
            tasks.append(count)
        elif grace_is_over and record.chunk.id not in chunks_in_use:
            tasks.append(delete)
    return tasks, is_pending


def _is_due(record: ChunkRecord, requirement: Requirement) -> bool:
    completed_version = record.completed_versions.get(requirement.name)
    if completed_version is None:
        return True
    if requirement.repeat_after is None:
        return False
    return record.version - completed_version >= requirement.repeat_after
