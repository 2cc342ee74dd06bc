"""Reads files and topics: what they bring is ingested in the threads that read them."""

from moirae.config import Settings
from moirae.errors import MoiraeError
from moirae.live.sources.file_input import FileInput
from moirae.live.sources.growing import GrowingFileInput
from moirae.live.sources.topics import TopicReaders


class SourceReaders:
    """The reading of one run: all files by one query of Spark, each topic by a thread, and growing
    files by the main thread.
    """

    def __init__(
        self,
        settings: Settings,
        files: FileInput,
        growing_files: GrowingFileInput,
        topics: TopicReaders,
        *,
        drain: bool,
    ) -> None:
        self.topics = topics
        self._growing_files = growing_files
        self._settings = settings
        self._files = files
        self._drain = drain

    def require_streams(self) -> None:
        """Raise `MoiraeError` if the workspace declares no streams."""
        if not self._settings.streams:
            raise MoiraeError(
                f"{self._settings.file}: no streams to read: declare at least one under `streams`"
            )

    def start(self) -> None:
        """Start to read; nothing if every stream only lands. Raises `MoiraeError`."""
        self._files.start()
        self.topics.start()
        self._growing_files.start()

    def update(self) -> None:
        """Start a batch of new files, and ingest what growing files have got.

        The lock is not held. Raises `Unreachable`.
        """
        self._files.update()
        self._growing_files.update()

    def oldest_unread_file(self, stream: str) -> float | None:
        """When the oldest unread file of a stream arrived; see `FileInput.oldest_unread`."""
        if stream in self._growing_files.streams:
            return self._growing_files.oldest_unread(stream)
        return self._files.oldest_unread(stream)

    def has_unread_files(self, stream: str, partition: str | None = None) -> bool:
        """Whether a stream has discovered files that are not archived. The lock is held.

        `partition`: only that growing file.
        """
        if stream in self._growing_files.streams:
            return self._growing_files.has_unread(stream, partition)
        return self._files.has_unread(stream)

    def stop(self) -> None:
        """Stop to read."""
        self._files.stop()
        self.topics.stop()

    @property
    def has_failed(self) -> bool:
        """Whether a batch has failed."""
        return self._files.has_failed or self.topics.failure() is not None

    def is_active(self) -> bool:
        """Whether no batch has failed and, in a drain, any input is left."""
        if self.has_failed:
            return False
        if self._files.is_active() or (self._drain and self.topics.is_running()):
            return True
        return self._growing_files.is_active()

    def raise_failure(self) -> None:
        """Raise the error of a batch, if any."""
        self._files.raise_failure()
        failure = self.topics.failure()
        if failure is not None:
            raise failure
