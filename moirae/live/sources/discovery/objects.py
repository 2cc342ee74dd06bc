"""New files of a stream in object storage, listed at intervals."""

import time
from collections.abc import Callable, Set

from archiver.errors import StorageFailed
from archiver.periodic import Clock
from archiver.storage import ObjectGlob
from archiver.times import to_micros
from moirae.live.sources.files import DiscoveredFile

# Seconds between two listings, at least: input that returns waits half of it on average.
_MIN_INTERVAL = 0.25
_LISTING_SHARE = 0.1  # of the time


class ObjectDiscovery:
    """Finds each object that matches a glob and is not in the ledger, once.

    `pattern`: a URL. `find_archived`: see `FolderDiscovery`.
    """

    def __init__(
        self,
        stream: str,
        pattern: str,
        find_archived: Callable[[Set[str]], Set[str]],
        clock: Clock = time.monotonic,
    ) -> None:
        self._stream = stream
        self._glob = ObjectGlob(pattern)
        self._find_archived = find_archived
        self._clock = clock
        self._list_again_at = 0.0
        self._known_urls: set[str] = set()
        self.problem: str | None = None
        """Why the last listing failed; None: it did not."""

    def find_new(self) -> list[DiscoveredFile]:
        """The objects that are new since the last call; none if they cannot be listed."""
        started_at = self._clock()
        if started_at < self._list_again_at:
            return []
        files: list[DiscoveredFile] = []
        self.problem = None
        try:
            files = self._list_new()
        except StorageFailed as error:
            self.problem = str(error)
        ended_at = self._clock()
        interval = max(_MIN_INTERVAL, (ended_at - started_at) / _LISTING_SHARE)
        self._list_again_at = ended_at + interval
        return files

    def _list_new(self) -> list[DiscoveredFile]:
        objects = {str(listed.path): listed for listed in self._glob.list()}
        new_urls = objects.keys() - self._known_urls
        archived = self._find_archived(new_urls) if new_urls else frozenset()
        self._known_urls = set(objects)
        files: list[DiscoveredFile] = []
        for url in new_urls - archived:
            listed = objects[url]
            modified = to_micros(listed.modified)
            files.append(DiscoveredFile(self._stream, listed.path, modified, listed.size))
        return files
