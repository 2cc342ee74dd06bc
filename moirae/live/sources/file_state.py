"""When a file is complete: what its folder says about it, and for how long it has been the same."""

import os
import stat
import time
from pathlib import Path
from typing import NamedTuple

from archiver.periodic import Clock

STABLE_AFTER = 2.0  # seconds without a change after which a file counts as written


class FileState(NamedTuple):
    """What differs once a file was written, replaced, moved or restored. Times in nanoseconds."""

    inode: int
    size: int
    modified: int
    changed: int

    @property
    def fingerprint(self) -> str:
        return ":".join(map(str, self))


def read_file_state(path: Path) -> FileState | None:
    """The state of a file, or of what a link leads to; None if there is none or it is hidden."""
    try:
        return _to_state(path.stat())
    except OSError:
        return None


def read_moved_state(path: Path) -> FileState | None:
    """The same for a file itself; None for a link, which says nothing about what it leads to."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return _to_state(status) if stat.S_ISREG(status.st_mode) else None


def _to_state(status: os.stat_result) -> FileState:
    return FileState(status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


class StabilityCheck:
    """Whether a file is unchanged for some seconds, by a monotonic clock."""

    def __init__(self, stable_after: float, clock: Clock = time.monotonic) -> None:
        self._stable_after = stable_after
        self._clock = clock
        self._state: FileState | None = None
        self._since: float | None = None

    def is_stable(self, state: FileState | None) -> bool:
        """Whether `state`, as it is now, was the same at each call for long enough."""
        now = self._clock()
        if self._since is None or state != self._state:
            self._state = state
            self._since = now
        return now - self._since >= self._stable_after
