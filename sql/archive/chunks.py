"""Chunks of the archive, and the maintenance tasks that were completed for them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from sql.gateway import Gateway
from sql.values import replace_nul


@dataclass(frozen=True, slots=True)
class ChunkRow:
    """A chunk. Times are event times in microseconds.

    `from_ts` None: from the beginning of time. `to_ts` None: the newest chunk, without an end yet.
    """

    id: int
    from_ts: int | None
    to_ts: int | None
    state: str


@dataclass(frozen=True, slots=True)
class ChunkMaintenanceRow:
    """What was done for a chunk.

    `version`: how many times late rows were added to it. `completed_versions`: by name of a
    completed task, the version at which it ran. `expired_seconds`: time since it expired, or 0;
    `ended_seconds`: since the rows of a stream did, by the name of the end.
    """

    id: int
    version: int
    completed_versions: Mapping[str, int]
    expired_seconds: float
    ended_seconds: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class MaintenanceErrorRow:
    """A maintenance task that failed at its last try: the chunk stays as it is."""

    chunk: int
    task: str
    error: str
    failed_at: datetime


class ChunkGateway(Gateway):
    queries = "chunks"

    def list_all(self) -> list[ChunkRow]:
        """All chunks, oldest first."""
        return self._records(ChunkRow, "list_all")

    def get_signature(self) -> tuple[int, ...]:
        """Differs from what it was before if chunks have begun, ended or expired since."""
        row = self._execute("get_signature").fetchone()
        assert row is not None
        return tuple(row)

    def list_maintenance(self) -> list[ChunkMaintenanceRow]:
        """The maintenance of all chunks, oldest first."""
        return self._records(ChunkMaintenanceRow, "list_maintenance")

    def stream_ends(self) -> dict[str, int]:
        """By stream, the event time before which its rows have expired while others have not.

        Microseconds.
        """
        return self._pairs("list_stream_ends")

    def present_ids(self) -> set[int]:
        """The ids of the chunks in state `present`."""
        return set(self._column("list_present_ids"))

    def put(
        self, chunk_id: int, *, from_ts: datetime | None, to_ts: datetime | None, state: str
    ) -> None:
        """Insert a chunk; of a stored one, only the end is updated."""
        self._execute("put", id=chunk_id, from_ts=from_ts, to_ts=to_ts, state=state)

    def set_state(self, chunk_id: int, state: str) -> None:
        """Set the state of a chunk, and the time at which it was closed or expired."""
        self._execute("set_state", id=chunk_id, state=state)

    def raise_versions(self, chunk_ids: Collection[int]) -> None:
        """Raise the version of chunks that received late rows: earlier answers over them differ."""
        self._execute("raise_versions", ids=list(chunk_ids))

    def put_completed_task(self, chunk_id: int, name: str, version: int) -> bool:
        """Record a completed task.

        False if this version, or a later one, was recorded before, or if the chunk was deleted.
        """
        values = {"chunk": chunk_id, "name": name, "version": version}
        return self._value("put_completed_task", **values) is not None

    def put_error(self, chunk_id: int, task: str, error: str) -> None:
        """Record that a maintenance task failed."""
        self._execute("put_error", chunk=chunk_id, task=task, error=replace_nul(error))

    def delete_error(self, chunk_id: int, task: str) -> None:
        """Forget that a task failed before it was completed."""
        self._execute("delete_error", chunk=chunk_id, task=task)

    def delete_errors_of(self, task: str) -> None:
        """Forget the failures of a task, which is planned anew for all chunks."""
        self._execute("delete_errors_of", task=task)

    def list_errors(self) -> list[MaintenanceErrorRow]:
        """The tasks that failed at their last try."""
        return self._records(MaintenanceErrorRow, "list_errors")

    def delete_before(self, oldest: int) -> None:
        """Delete the chunks before chunk `oldest`."""
        self._execute("delete_before", oldest=oldest)

    def clear_start(self, chunk_id: int) -> None:
        """Let a chunk start at the beginning of time."""
        self._execute("clear_start", id=chunk_id)
