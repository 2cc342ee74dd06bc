"""Files that wait to be archived, and the batches in which they are. No I/O."""

import heapq
from collections.abc import Iterable

from moirae.live.sources.files import DiscoveredFile


class FileBatches:
    """The files of all streams that are discovered and not archived.

    A batch takes files of each stream, so that the backlog of one does not hold back the others:
    up to `max_bytes` and `max_files` of each, at least one.
    """

    def __init__(self, max_bytes: int, max_files: int) -> None:
        self._max_bytes = max_bytes
        self._max_files = max_files
        self._waiting: dict[str, list[tuple[int, str, DiscoveredFile]]] = {}
        self._current: list[DiscoveredFile] = []
        self._postponed: list[DiscoveredFile] = []
        self._unread: set[tuple[str, str]] = set()

    @property
    def current(self) -> list[DiscoveredFile]:
        """The files that are being archived; empty without a batch."""
        return self._current

    def add(self, files: Iterable[DiscoveredFile]) -> None:
        """Let files wait, unless they do."""
        for file in files:
            if (file.stream, str(file.path)) in self._unread:
                continue
            self._unread.add((file.stream, str(file.path)))
            waiting = self._waiting.setdefault(file.stream, [])
            heapq.heappush(waiting, (file.modified, str(file.path), file))

    def start_batch(self) -> bool:
        """Take the next batch, unless there is one or no file waits; returns whether it did.

        The oldest files of each stream, by modification time and path: at least one.
        """
        if self._current:
            return False
        for waiting in self._waiting.values():
            size = 0
            for number in range(min(self._max_files, len(waiting))):
                if number and size + waiting[0][2].size > self._max_bytes:
                    break
                file = heapq.heappop(waiting)[2]
                self._current.append(file)
                size += file.size
        return bool(self._current)

    def finish_batch(self, postponed: Iterable[DiscoveredFile] = ()) -> None:
        """Forget the files of the batch: they are archived, except those that are postponed."""
        self._unread.difference_update((file.stream, str(file.path)) for file in self._current)
        self._current = []
        for file in postponed:
            self._unread.add((file.stream, str(file.path)))
            self._postponed.append(file)

    @property
    def postponed(self) -> list[DiscoveredFile]:
        """Files that could not be archived; they are in no batch until they are resumed."""
        return self._postponed

    def ready_streams(self) -> set[str]:
        """The streams with files that are in a batch, or can be in the next."""
        streams = {file.stream for file in self._current}
        return streams.union(stream for stream, waiting in self._waiting.items() if waiting)

    def oldest(self, stream: str) -> DiscoveredFile | None:
        """The oldest file of a stream that is in a batch, or can be in the next."""
        candidates = [file for file in self._current if file.stream == stream]
        waiting = self._waiting.get(stream)
        if waiting:
            candidates.append(waiting[0][2])
        return min(candidates, key=lambda file: file.modified, default=None)

    def resume(self, files: Iterable[DiscoveredFile]) -> None:
        """Let postponed files wait for a batch again."""
        resumed = set(files)
        self._postponed = [file for file in self._postponed if file not in resumed]
        self._unread.difference_update((file.stream, str(file.path)) for file in resumed)
        self.add(resumed)
