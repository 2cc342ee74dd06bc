"""Copies of files that are elsewhere, in a folder of this machine that several processes share.

What is handed out as a path stays for as long as its reader may take; of the rest the least recently used go when all
of it is more than it should be, or little is left of the disk. The access time of a file, which is ours to set, says
until when it was handed out, or when it was read last: in seconds since the machine was started, which no step of its
clock changes.
"""

import errno
import fcntl
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from archiver.clock import seconds_since_boot
from archiver.storage.base import fsync_files

# A part of the limit that may come in before it is looked at again what there is.
_CHECK_FRACTION = 16
# Bytes that are left to others on the disk.
_RESERVED_SPACE = 1 << 30
# Seconds until it is looked again what may go, where nothing did and little is left of the disk.
_EVICTION_PAUSE = 5.0
# What is handed out stays so many times as long as it must.
_LEASE_FACTOR = 1.25
# Seconds after which what was begun is taken to be left by a process that died.
_ABANDONED_AFTER = 3 * 3600.0
# Access times count from here, in 2035: the system sets those that lie behind a file's change when it is read; and some
# file systems know none beyond 2038.
_TIME_ORIGIN = (1 << 31) - (1 << 26)
_LOCK_FILE, _PARTIAL_SUFFIX = ".lock", ".part"


class FileCache:
    """`limit`: bytes; more only while it is handed out. `grace`: seconds that a reader may take."""

    def __init__(self, folder: Path, limit: int, grace: float) -> None:
        self.folder = folder
        self._limit = limit
        self._grace = grace
        self._bytes_since_eviction = limit
        self._last_failed_eviction = -_EVICTION_PAUSE

    def lease(self, paths: Sequence[Path]) -> bool:
        """Have files stay for a reader; whether they are all there."""
        with self._lock():
            return sum(self._extend_lease(path, self._grace) for path in paths) == len(paths)

    def record_read(self, path: Path) -> None:
        """A file was opened by somebody who does not need its name any more."""
        with self._lock():
            self._extend_lease(path, 0.0)

    def _extend_lease(self, path: Path, grace: float) -> bool:
        now = seconds_since_boot()
        try:
            known = path.stat()
            left = _lease_end(known) - now if self._is_leased(_lease_end(known), now) else -1.0
            if left <= grace:
                until = now + grace * _LEASE_FACTOR  # so that it need not be set again at once
                # The time of its last change stays: readers tell by it that a file is the same.
                os.utime(path, ns=(int((_TIME_ORIGIN + until) * 1e9), known.st_mtime_ns))
        except FileNotFoundError:
            return False
        return True

    def _is_leased(self, until: float, now: float) -> bool:
        """After the machine was started again, nobody reads: times that nobody can have meant now count for nothing."""
        return now < until <= now + 2 * self._grace

    @contextmanager
    def write_file(self, path: Path, lease: bool = False) -> Iterator[Path]:
        """A file to be, at another path; it comes to its own, whole, when this ends, and is held for a reader or not:
        then it may be gone again at once."""
        begun = path.parent / f".{uuid4().hex}{_PARTIAL_SUFFIX}"
        with self._lock():
            path.parent.mkdir(parents=True, exist_ok=True)
            begun.touch()
            os.utime(begun, (_TIME_ORIGIN + seconds_since_boot(), time.time()))
        try:
            yield begun
            fsync_files([begun])
            size = begun.stat().st_size
            self._extend_lease(begun, self._grace if lease else 0.0)
            with suppress(FileExistsError):
                os.link(begun, path)  # another may have brought it, and somebody may hold it
        except OSError as error:
            if error.errno == errno.ENOSPC:
                self.evict(0)
            raise
        finally:
            begun.unlink(missing_ok=True)
        self._bytes_since_eviction += size
        if self._bytes_since_eviction >= self._limit / _CHECK_FRACTION or self._missing_space() > 0:
            self._evict_if_needed()

    def ensure_space(self, size: int) -> None:
        """Raises `OSError` when a file of so many bytes would take of the disk what is for others, though all has gone
        that nobody holds."""
        if self._missing_space(size) > 0:
            self._evict_if_needed(size)
            if self._missing_space(size) > 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.folder))

    def _missing_space(self, size: int = 0) -> int:
        """Bytes that are missing on the disk when so many more are taken."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return _RESERVED_SPACE + size - shutil.disk_usage(self.folder).free

    def _evict_if_needed(self, size: int = 0) -> None:
        """Removes some more than need be, and does not try again at once where that was in vain: it takes long where
        there is much."""
        now = seconds_since_boot()
        if (
            self._bytes_since_eviction >= self._limit / _CHECK_FRACTION
            or now - self._last_failed_eviction >= _EVICTION_PAUSE
        ):
            self._bytes_since_eviction = 0
            self.evict(
                self._limit,
                size + self._limit // _CHECK_FRACTION if self._missing_space(size) > 0 else 0,
            )
            if self._missing_space(size) > 0:
                self._last_failed_eviction = now

    def evict(self, limit: int, size: int = 0) -> None:
        """Remove what goes first, until no more than so many bytes are left, and as many as `size` can come."""
        now, found = seconds_since_boot(), []
        # Another process may be at it: what goes meanwhile is passed over.
        for path in [
            Path(folder, name) for folder, _, names in os.walk(self.folder) for name in names
        ]:
            with suppress(FileNotFoundError):
                held = path.stat()
                if path.name.endswith(_PARTIAL_SUFFIX):
                    self._remove_abandoned(path, held, now)
                elif not path.name.startswith("."):
                    known = (
                        _lease_end(held) <= now + 2 * self._grace
                    )  # else from before the machine was started
                    found.append((_lease_end(held) if known else 0.0, held.st_size, path))
        total = sum(size for _, size, _ in found)
        excess = max(total - limit, min(total, self._missing_space(size)))
        for until, bytes_, path in sorted(found):
            if excess <= 0:
                return
            if not self._is_leased(until, now) and self._remove(path, now):
                excess -= bytes_

    def _remove_abandoned(self, path: Path, known: os.stat_result, now: float) -> None:
        """Remove what a process has left unfinished that died."""
        if self._is_abandoned(known, now):
            with self._lock():
                if self._is_abandoned(
                    path.stat(), now
                ):  # else it was just being made, and has its time now
                    path.unlink()

    def _is_abandoned(self, known: os.stat_result, now: float) -> bool:
        return not -_ABANDONED_AFTER < _lease_end(known) - now <= 2 * self._grace

    def _remove(self, path: Path, now: float) -> bool:
        with self._lock():
            try:
                if self._is_leased(_lease_end(path.stat()), now):
                    return False
                path.unlink()
            except FileNotFoundError:
                return True
            with suppress(OSError):
                path.parent.rmdir()  # when it was the last
        return True

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Nothing is removed between being found and being held."""
        self.folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.folder / _LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def _lease_end(known: os.stat_result) -> float:
    """Until when a file was handed out, or when it was read, by `archiver.clock`."""
    return known.st_atime - _TIME_ORIGIN
