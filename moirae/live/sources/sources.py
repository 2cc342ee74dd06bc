"""All sources of a workspace, as one."""

from collections.abc import Sequence

from archiver.ingest import ArchiveWriter
from moirae.live.sources.idle import SourceKey
from moirae.live.sources.source import Source


class Sources:
    """The sources of one run. A stream may have several: files or a topic, and landed batches."""

    def __init__(self, sources: Sequence[Source], archive: ArchiveWriter, *, drain: bool) -> None:
        self._sources = sources
        self._archive = archive
        self._drain = drain

    def start(self) -> None:
        """Begin to read. Raises `MoiraeError`."""
        for source in self._sources:
            source.start()

    def update(self) -> None:
        """Ingest new input. The lock is not held. Raises `Unreachable`."""
        for source in self._sources:
            source.update()

    def stop(self) -> None:
        """End reading. The lock is not held."""
        for source in self._sources:
            source.stop()

    @property
    def failure(self) -> BaseException | None:
        """An error that ends the process."""
        failures = (source.failure for source in self._sources)
        return next((failure for failure in failures if failure is not None), None)

    def is_active(self) -> bool:
        """Whether nothing has failed and, in a drain, any input is left. The lock is held."""
        if self.failure is not None:
            return False
        return not self._drain or any(
            source.has_unread(stream) for source in self._sources for stream in source.streams
        )

    def has_unread(self, key: SourceKey) -> bool:
        """Whether a stream or partition has input that is not archived yet. The lock is held."""
        if self._archive.is_waiting(key.stream):
            return True
        return any(
            source.has_unread(*key) for source in self._sources if key.stream in source.streams
        )

    def oldest_unread(self, stream: str) -> float | None:
        """When the oldest input arrived that is neither archived nor set aside.

        In seconds since 1970; None: there is none. The lock is held.
        """
        times = [
            source.oldest_unread(stream) for source in self._sources if stream in source.streams
        ]
        return min((time for time in times if time is not None), default=None)
