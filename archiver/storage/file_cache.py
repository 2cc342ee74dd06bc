"""A local cache of remote files, shared by several processes.

A path given to a reader is leased: its file stays for as long as the reader may take. Of the other
files the least recently used are evicted when the cache exceeds its limit or the disk is nearly
full. The access time of a file, which the cache sets itself, stores the end of its lease or its
last read, in seconds since boot: changes of the system clock do not affect it.
"""

import errno
import fcntl
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from archiver.clock import seconds_since_boot
from archiver.periodic import Timer
from archiver.storage.base import fsync_files
from archiver.task_environment import find_task_folder

# The cache is checked for eviction whenever 1/16 of its limit was added.
_CHECK_FRACTION = 16
_RESERVED_SPACE = 1 << 30  # bytes of the disk that are left to other programs
# Pause after an eviction that freed too little, when the disk is nearly full.
_EVICTION_PAUSE = 5.0  # seconds
# Leases are longer than required by this factor, so that they need not be extended at each use.
_LEASE_FACTOR = 1.25
# Age at which a partial file is taken to belong to a process that died.
_ABANDONED_AFTER = 3 * 3600.0  # seconds
# Access times are stored relative to this Unix time, in 2035. With relatime the system overwrites
# access times that are older than a file's change; some file systems end in 2038.
_TIME_ORIGIN = (1 << 31) - (1 << 26)  # seconds
_LOCK_FILE = ".lock"
_PARTIAL_SUFFIX = ".part"
_TASK_CACHE = "moirae-cache"


class FileCache:
    """Files below `folder`, at most `limit` bytes unless leases require more.

    `grace`: seconds for which a leased file stays. A cache that is sent to a task of another machine
    is below the task's folder there.
    """

    def __init__(self, folder: Path, limit: int, grace: float) -> None:
        self.folder = folder
        self._limit = limit
        self._grace = grace
        self._bytes_since_eviction = limit
        self._eviction_timer = Timer(_EVICTION_PAUSE, clock=seconds_since_boot)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        task_folder = find_task_folder()
        if task_folder is not None:
            self.folder = task_folder / _TASK_CACHE

    def lease(self, paths: Sequence[Path]) -> bool:
        """Keep files for a reader. Returns whether all of them exist."""
        with self._lock():
            present = [self._extend_lease(path, self._grace) for path in paths]
        return all(present)

    def record_read(self, path: Path) -> None:
        """Mark a file as used now. Its reader has it open, and no longer needs its name."""
        with self._lock():
            self._extend_lease(path, 0.0)

    def _extend_lease(self, path: Path, grace: float) -> bool:
        """Let the lease of a file end in `grace` seconds or later. False if it does not exist."""
        now = seconds_since_boot()
        try:
            status = path.stat()
            lease_end = _lease_end(status)
            remaining = lease_end - now if self._is_leased(lease_end, now) else -1.0
            if remaining <= grace:
                lease_end = now + grace * _LEASE_FACTOR
                access_time = int((_TIME_ORIGIN + lease_end) * 1e9)
                # The modification time stays: readers compare it to recognise a file.
                os.utime(path, ns=(access_time, status.st_mtime_ns))
        except FileNotFoundError:
            return False
        return True

    def _is_leased(self, lease_end: float, now: float) -> bool:
        """Whether a lease is valid. One set before the last boot is not: its end is too late."""
        return now < lease_end <= now + 2 * self._grace

    @contextmanager
    def write_file(self, path: Path, lease: bool = False) -> Iterator[Path]:
        """Yield a temporary path to write to; the file appears at `path`, complete, on exit.

        Without `lease` it may be evicted at once.
        """
        partial = path.parent / f".{uuid4().hex}{_PARTIAL_SUFFIX}"
        with self._lock():
            path.parent.mkdir(parents=True, exist_ok=True)
            partial.touch()
            os.utime(partial, (_TIME_ORIGIN + seconds_since_boot(), time.time()))
        try:
            yield partial
            fsync_files([partial])
            size = partial.stat().st_size
            self._extend_lease(partial, self._grace if lease else 0.0)
            # Another process may have fetched the same file; a reader may hold a lease on that one.
            with suppress(FileExistsError):
                os.link(partial, path)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                self.evict(0)
            raise
        finally:
            partial.unlink(missing_ok=True)
        self._bytes_since_eviction += size
        if self._is_check_due() or self._missing_space() > 0:
            self._evict_if_needed()

    def ensure_space(self, size: int) -> None:
        """Evict files if the disk lacks space for `size` bytes. Raises `OSError` if that fails."""
        if self._missing_space(size) > 0:
            self._evict_if_needed(size)
            if self._missing_space(size) > 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.folder))

    def _is_check_due(self) -> bool:
        return self._bytes_since_eviction >= self._limit / _CHECK_FRACTION

    def _missing_space(self, size: int = 0) -> int:
        """Bytes that the disk lacks for `size` more bytes and the reserve; negative if none."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return _RESERVED_SPACE + size - shutil.disk_usage(self.folder).free

    def _evict_if_needed(self, size: int = 0) -> None:
        """Evict down to the limit, and for `size` bytes more than the disk has.

        Frees more than required, and pauses after a failed attempt: walking a large cache is slow.
        """
        if self._is_check_due() or self._eviction_timer.is_due():
            self._bytes_since_eviction = 0
            required = 0
            if self._missing_space(size) > 0:
                required = size + self._limit // _CHECK_FRACTION
            self.evict(self._limit, required)
            if self._missing_space(size) > 0:
                self._eviction_timer.restart()

    def evict(self, limit: int, required: int = 0) -> None:
        """Remove the least recently used files, except leased ones.

        Stops when at most `limit` bytes remain and the disk has space for `required` more.
        """
        now = seconds_since_boot()
        candidates = self._eviction_candidates(now)
        total = sum(size for _, size, _ in candidates)
        excess = max(total - limit, min(total, self._missing_space(required)))
        for lease_end, size, path in sorted(candidates):
            if excess <= 0:
                return
            if not self._is_leased(lease_end, now) and self._remove(path, now):
                excess -= size

    def _eviction_candidates(self, now: float) -> list[tuple[float, int, Path]]:
        """List (end of lease, bytes, path) of complete files. Removes abandoned partial files."""
        candidates = []
        for path in _list_files(self.folder):
            # Another process may remove files meanwhile.
            with suppress(FileNotFoundError):
                status = path.stat()
                if path.name.endswith(_PARTIAL_SUFFIX):
                    self._remove_abandoned(path, status, now)
                elif not path.name.startswith("."):
                    lease_end = _lease_end(status)
                    if lease_end > now + 2 * self._grace:
                        lease_end = 0.0  # set before the last boot
                    candidates.append((lease_end, status.st_size, path))
        return candidates

    def _remove_abandoned(self, path: Path, status: os.stat_result, now: float) -> None:
        """Remove a partial file of a process that died."""
        if self._is_abandoned(status, now):
            with self._lock():
                # Checked again under the lock: the file may just have been created, and its access
                # time set since.
                if self._is_abandoned(path.stat(), now):
                    path.unlink()

    def _is_abandoned(self, status: os.stat_result, now: float) -> bool:
        return not -_ABANDONED_AFTER < _lease_end(status) - now <= 2 * self._grace

    def _remove(self, path: Path, now: float) -> bool:
        """Remove a file. Returns False if it was leased meanwhile."""
        with self._lock():
            try:
                if self._is_leased(_lease_end(path.stat()), now):
                    return False
                path.unlink()
            except FileNotFoundError:
                return True
            with suppress(OSError):
                path.parent.rmdir()  # fails unless this was the folder's last file
        return True

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Exclude all other processes, so that no file is removed while its lease is being set."""
        self.folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.folder / _LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _lease_end(status: os.stat_result) -> float:
    """End of the lease or time of the last read, in seconds of `archiver.clock`."""
    return status.st_atime - _TIME_ORIGIN


def _list_files(folder: Path) -> list[Path]:
    paths: list[Path] = []
    for parent, _, names in os.walk(folder):
        paths.extend(Path(parent, name) for name in names)
    return paths
