"""New and changed objects of a stream in object storage, listed at intervals."""

import time
from collections.abc import Mapping

from archiver.errors import StorageFailed
from archiver.periodic import Clock
from archiver.storage import ObjectGlob, ObjectPath
from archiver.times import to_micros
from moirae.live.sources.discovery.recorded_versions import RecordedVersions
from moirae.live.sources.files import DiscoveredFile

# Seconds between two listings, at least: input that returns waits half of it on average.
_MIN_INTERVAL = 0.25
_LISTING_SHARE = 0.1  # of the time
# Seconds between two listings of all objects, at least, where most start after the last name.
_FULL_INTERVAL = 60.0


class ObjectDiscovery:
    """Finds each object that matches a glob and is not in the ledger, once, and if it was changed.

    `pattern`: a URL. `ordered`: listings start after the last name; one of all objects from time to
    time finds those that came out of order, and changed ones.
    """

    def __init__(
        self,
        stream: str,
        pattern: str,
        versions: RecordedVersions,
        *,
        ordered: bool = False,
        clock: Clock = time.monotonic,
    ) -> None:
        self._stream = stream
        self._glob = ObjectGlob(pattern)
        self._versions = versions
        self._ordered = ordered
        self._clock = clock
        self._list_again_at = 0.0
        self._list_all_at = 0.0
        # By URL: the hash of size and modification time, as returned or as the ledger has them.
        self._known: dict[str, int] = {}
        # By URL: the last reading of changed objects that were returned.
        self._readings: dict[str, int] = {}
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
        listed: dict[str, DiscoveredFile] = {}
        for item in self._glob.list(None if is_full else self._last):
            modified = to_micros(item.modified)
            file = DiscoveredFile(self._stream, item.path, modified, item.size)
            listed[str(item.path)] = file
        if is_full:
            self._known = {url: mark for url, mark in self._known.items() if url in listed}
        if listed:
            path = listed[max(listed)].path
            assert isinstance(path, ObjectPath)
            self._last = path
        candidates = {
            url: file for url, file in listed.items() if self._known.get(url) != _mark(file)
        }
        return self._select_unread(candidates)

    def _select_unread(self, candidates: Mapping[str, DiscoveredFile]) -> list[DiscoveredFile]:
        compared = self._versions.compare(candidates)
        # What changes while it waits to be read is compared again when it has been read.
        files = {url: file for url, file in compared.unread.items() if url not in self._known}
        for url, file in compared.changed.items():
            if self._readings.get(url) != file.reading:
                self._readings[url] = file.reading
                self._versions.report(url)
                files[url] = file
        for url, file in (files | compared.unchanged).items():
            self._known[url] = _mark(file)
        return list(files.values())


def _mark(file: DiscoveredFile) -> int:
    return hash((file.size, file.modified))
