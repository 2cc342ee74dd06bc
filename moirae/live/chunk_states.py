"""Chunk states: finished maintenance is recorded, due maintenance is submitted."""

from archiver.chunks import ChunkMaintenance, LifecyclePolicy
from archiver.ingest import ArchiveWriter
from moirae.live.event_time import get_watermarks
from sql.recalls import TaskGateway


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

    def update(self) -> None:
        """Record finished maintenance of chunks, update chunk states and submit what is due."""
        self._archive.record_results(self._maintenance.collect_results())
        tasks = self._archive.update_chunk_states(
            self._policy,
            self._maintenance.requirements,
            list(get_watermarks(self._archive).values()),
            self._tasks.list_pinned_chunks,
        )
        self._maintenance.submit(tasks)

    def finish(self) -> None:
        """Update, and wait until the maintenance that is due has ended."""
        self.update()
        self._maintenance.wait()
        self.update()

    def stop(self) -> None:
        """Start no further maintenance."""
        self._maintenance.stop()
