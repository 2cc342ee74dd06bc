"""Chunk states: finished maintenance is recorded, due maintenance is submitted."""

from archiver.chunks import (
    COMPACT,
    ChunkMaintenance,
    Compaction,
    LifecyclePolicy,
    MaintenanceTask,
)
from archiver.ingest import ArchiveWriter
from moirae.live.event_time import get_watermarks
from sql.recalls import TaskGateway

# Of closed chunks whose files stay.
_STORED_STATES = ("recent", "old")


class ChunkStates:
    """Keeps the states of chunks up to date; `maintenance` does the work in a thread."""

    def __init__(
        self,
        archive: ArchiveWriter,
        maintenance: ChunkMaintenance,
        policy: LifecyclePolicy,
        tasks: TaskGateway,
    ) -> None:
        self._archive = archive
        self._maintenance = maintenance
        self._policy = policy
        self._tasks = tasks
        # When this process began, the newest last; None: not looked for yet.
        self._outdated_chunks: list[int] | None = None

    def update(self) -> None:
        """Record finished maintenance of chunks, update chunk states and submit what is due."""
        self._archive.record_results(self._maintenance.collect_results())
        tasks = self._archive.update_chunk_states(
            self._policy,
            self._maintenance.requirements,
            list(get_watermarks(self._archive).values()),
            self._tasks.list_pinned_chunks,
        )
        if not tasks and self._maintenance.is_idle:
            tasks = self._next_compaction()
        if tasks:
            # Asked before the tables are read: rows that come later are not settled.
            self._maintenance.submit(tasks, self._archive.catalog.settled_places())

    def _next_compaction(self) -> list[MaintenanceTask]:
        """The newest closed chunk with files of an earlier version, when there is nothing else."""
        if self._outdated_chunks is None:
            closed = {chunk.id for chunk in self._archive.chunks if chunk.state in _STORED_STATES}
            compaction = Compaction(self._archive.tables.values(), dict)
            steps = compaction.plan(closed)
            self._archive.forget_failures(COMPACT)
            self._outdated_chunks = list(dict.fromkeys(step.chunk for step in reversed(steps)))
        if not self._outdated_chunks:
            return []
        return [MaintenanceTask(self._outdated_chunks.pop(), COMPACT, 0)]

    def finish(self) -> None:
        """Update, and wait until the maintenance that is due has ended."""
        self.update()
        self._maintenance.wait()
        self.update()

    def stop(self) -> None:
        """Start no further maintenance."""
        self._maintenance.stop()
