"""New objects of a stream in object storage, listed at intervals."""

import time
from collections.abc import Callable, Set

from archiver.errors import StorageFailed
from archiver.periodic import Clock
from archiver.storage import ObjectGlob, ObjectPath
from archiver.times import to_micros
from moirae.live.sources.files import DiscoveredFile

# Seconds between two listings, at least: input that returns waits half of it on average.
_MIN_INTERVAL = 0.25
_LISTING_SHARE = 0.1  # of the time
# Seconds between two listings of all objects, at least, where most start after the last name.
_FULL_INTERVAL = 60.0


class ObjectDiscovery:
    """Finds each object that matches a glob and is not in the ledger, once.

    `pattern`: a URL. `find_archived`: see `FolderDiscovery`. `ordered`: listings start after the
    last name; one of all objects from time to time finds those that came out of order.
    """

    def __init__(
        self,
        stream: str,
        pattern: str,
        find_archived: Callable[[Set[str]], Set[str]],
        *,
        ordered: bool = False,
        clock: Clock = time.monotonic,
    ) -> None:
        self._stream = stream
        self._glob = ObjectGlob(pattern)
        self._find_archived = find_archived
        self._ordered = ordered
        self._clock = clock
        self._list_again_at = 0.0
        self._list_all_at = 0.0
        self._known_urls: set[str] = set()
        self._last: ObjectPath | None = None
        self.problem: str | None = None
        """Why the last listing failed; None: it did not."""

    def find_new(self) -> list[DiscoveredFile]:
        """The objects that are new since the last call; none if they cannot be listed."""
        started_at = self._clock()
        if started_at < self._list_again_at:
            return []
        files: list[DiscoveredFile] = []
        self.problem = None
        is_full = self._last is None or not self._ordered or started_at >= self._list_all_at
        try:
            files = self._list_new(is_full=is_full)
        except StorageFailed as error:
            self.problem = str(error)
        ended_at = self._clock()
        pause = (ended_at - started_at) / _LISTING_SHARE
        if is_full and self._ordered and self.problem is None:
            self._list_all_at = ended_at + max(_FULL_INTERVAL, pause)
            pause = 0.0
        self._list_again_at = ended_at + max(_MIN_INTERVAL, pause)
        return files

    def _list_new(self, *, is_full: bool) -> list[DiscoveredFile]:
        listed = self._glob.list(None if is_full else self._last)
        objects = {str(listed_object.path): listed_object for listed_object in listed}
        new_urls = objects.keys() - self._known_urls
        archived = self._find_archived(new_urls) if new_urls else frozenset()
        if is_full:
            self._known_urls = set(objects)
        else:
            self._known_urls.update(new_urls)
        if objects:
            self._last = objects[max(objects)].path
        files: list[DiscoveredFile] = []
        for url in new_urls - archived:
            listed_object = objects[url]
            modified = to_micros(listed_object.modified)
            file = DiscoveredFile(self._stream, listed_object.path, modified, listed_object.size)
            files.append(file)
        return files
