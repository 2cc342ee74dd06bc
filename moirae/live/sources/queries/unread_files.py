"""Unread files of a stream, found at little cost while nothing changes."""

import glob
import os
import time
from collections.abc import Callable
from pathlib import Path

from moirae.live.sources.files import DiscoveredFile, list_files, stat_files, unit_name

# Seconds: a folder that changed this recently may change again without a new modification time.
_CLOCK_RESOLUTION = 2.0
# Not every file system updates the modification times of folders: files are listed again at
# intervals of at least `_MIN_LISTING_INTERVAL` seconds, at most this share of the time.
_LISTING_SHARE = 0.005
_MIN_LISTING_INTERVAL = 1.0
# Characters with a meaning in Spark's globs that they do not have in Python's.
_OTHER_WILDCARDS = "{}\\^"


class UnreadFilesCheck:
    """Tells which files that match a glob are not archived.

    `find_unread` returns those of the names of all present files. While it finds none, the files
    are listed again only when a folder has changed, or after the listing interval.
    """

    def __init__(
        self,
        stream: str,
        pattern: str,
        base: Path,
        find_unread: Callable[[set[str]], set[str]],
    ) -> None:
        """Files are named relative to `base`."""
        self._stream = stream
        self._pattern = pattern
        self._base = base
        self._find_unread = find_unread
        # Modification times of the folders at the last listing, if that found no unread file.
        self._folder_times: dict[str, int] | None = None
        self._list_again_at = 0.0

    def has_unread(self) -> bool:
        """Whether there may be unread files; True for a glob that only Spark understands."""
        return any(char in self._pattern for char in _OTHER_WILDCARDS) or bool(self.find())

    def find(self) -> list[DiscoveredFile]:
        """The unread files."""
        started_at = time.monotonic()
        if started_at < self._list_again_at and self._folders_are_unchanged():
            return []
        trusted_until = (time.time() - _CLOCK_RESOLUTION) * 1e9
        folder_times = _stat_folders(list_folders(self._pattern))
        paths = {unit_name(path, self._base): path for path in list_files(self._pattern)}
        unread_paths = [paths[name] for name in self._find_unread(set(paths))]
        discovered = stat_files(self._stream, unread_paths)
        self._folder_times = None
        if not discovered and max(folder_times.values(), default=0) < trusted_until:
            self._folder_times = folder_times
        now = time.monotonic()
        interval = max(_MIN_LISTING_INTERVAL, (now - started_at) / _LISTING_SHARE)
        self._list_again_at = now + interval
        return discovered

    def _folders_are_unchanged(self) -> bool:
        times = self._folder_times
        return times is not None and _stat_folders(list(times)) == times


def list_folders(pattern: str) -> list[str]:
    """The folders whose entries decide which files match a glob, from the first wildcard on."""
    folders: list[str] = []
    folder = os.path.dirname(pattern)
    while glob.has_magic(folder):
        folders += glob.glob(folder)
        folder = os.path.dirname(folder)
    return [*folders, folder]


def _stat_folders(folders: list[str]) -> dict[str, int]:
    """Modification times in nanoseconds; 0 for a folder that cannot be read."""
    times: dict[str, int] = {}
    for folder in folders:
        try:
            times[folder] = os.stat(folder).st_mtime_ns
        except OSError:
            times[folder] = 0
    return times
