"""Source files in object storage: listed at intervals, ingested by the live loop."""

import time
from collections.abc import Callable, Mapping, Sequence

from archiver.errors import StorageFailed
from archiver.periodic import Clock
from archiver.storage import ObjectGlob
from archiver.times import to_micros
from moirae.config import FileSource
from moirae.errors import Unreachable
from moirae.live.sources.files import DiscoveredFile
from moirae.live.sources.idle import UnreadFiles

# Seconds between two listings, at least: input that returns waits half of it on average.
_MIN_INTERVAL = 0.25
_LISTING_SHARE = 0.1  # of the time
# Bytes of objects that are ingested at a time: bounds what is repeated after a crash.
_MAX_BATCH_BYTES = 64 << 20


class UnreadObjects:
    """Finds the objects of all streams that are not archived.

    `sources`: by stream, with URLs. Spark has no part in it: executors open objects by their URL.
    """

    def __init__(
        self,
        sources: Mapping[str, FileSource],
        unread_files: UnreadFiles,
        clock: Clock = time.monotonic,
    ) -> None:
        self._globs = {name: ObjectGlob(source.files) for name, source in sources.items()}
        self._unread_files = unread_files
        self._clock = clock
        self._list_again_at = 0.0
        self._unread: dict[str, list[DiscoveredFile]] = {}

    def has_unread(self, stream: str) -> bool:
        """Whether the last listing found objects of a stream that are not archived yet."""
        return bool(self._unread.get(stream))

    def find(self) -> list[DiscoveredFile]:
        """The next unread objects in order of arrival, up to some megabytes but at least one.

        Lists them, unless that was done a short time ago. Raises `Unreachable`.
        """
        if self._clock() >= self._list_again_at:
            self.list_unread()
        return _select(self._unread)

    def list_unread(self) -> None:
        """List all objects. Raises `Unreachable`."""
        started_at = self._clock()
        for stream, pattern in self._globs.items():
            try:
                objects = {str(listed.path): listed for listed in pattern.list()}
            except StorageFailed as error:
                raise Unreachable(str(error)) from error
            names = self._unread_files.find_unread(stream, set(objects), self._clock())
            self._unread[stream] = []
            for name in names:
                listed = objects[name]
                modified = to_micros(listed.modified)
                self._unread[stream].append(
                    DiscoveredFile(stream, listed.path, modified, listed.size)
                )
        ended_at = self._clock()
        interval = max(_MIN_INTERVAL, (ended_at - started_at) / _LISTING_SHARE)
        self._list_again_at = ended_at + interval

    def record_archived(self, files: Sequence[DiscoveredFile]) -> None:
        """Record that objects are archived."""
        for stream, unread in self._unread.items():
            archived = {str(file.path) for file in files if file.stream == stream}
            self._unread[stream] = [file for file in unread if str(file.path) not in archived]
            self._unread_files.record_archived(stream, archived)

    def ingest_all(self, ingest: Callable[[Sequence[DiscoveredFile]], None]) -> None:
        """Ingest all objects that are there now. Raises `Unreachable`."""
        self.list_unread()
        while batch := _select(self._unread):
            ingest(batch)


def _select(unread: Mapping[str, Sequence[DiscoveredFile]]) -> list[DiscoveredFile]:
    files = [file for stream_files in unread.values() for file in stream_files]
    files.sort(key=lambda file: (file.modified, file.stream, str(file.path)))
    selected: list[DiscoveredFile] = []
    size = 0
    for file in files:
        if selected and size + file.size > _MAX_BATCH_BYTES:
            break
        selected.append(file)
        size += file.size
    return selected
