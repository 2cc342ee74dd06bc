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

from archiver.clock import going
from archiver.place import flush

# A part of the limit that may come in before it is looked at again what there is.
_PART = 16
# Bytes that are left to others on the disk.
_RESERVE = 1 << 30
# Seconds until it is looked again what may go, where nothing did and little is left of the disk.
_PAUSE = 5.0
# What is handed out stays so many times as long as it must.
_MORE = 1.25
# Seconds after which what was begun is taken to be left by a process that died.
_LEFT = 3 * 3600.0
# Access times count from here, in 2035: the system sets those that lie behind a file's change when it is read; and some
# file systems know none beyond 2038.
_ZERO = (1 << 31) - (1 << 26)
_LOCK, _BEGUN = ".lock", ".part"


class Cache:
    """`limit`: bytes; more only while it is handed out. `grace`: seconds that a reader may take."""

    def __init__(self, folder: Path, limit: int, grace: float) -> None:
        self.folder = folder
        self._limit = limit
        self._grace = grace
        self._grown = limit
        self._vain = -_PAUSE

    def hold(self, paths: Sequence[Path]) -> bool:
        """Have files stay for a reader; whether they are all there."""
        with self._locked():
            return sum(self._used(path, self._grace) for path in paths) == len(paths)

    def opened(self, path: Path) -> None:
        """A file was opened by somebody who does not need its name any more."""
        with self._locked():
            self._used(path, 0.0)

    def _used(self, path: Path, grace: float) -> bool:
        now = going()
        try:
            known = path.stat()
            left = _until(known) - now if self._held(_until(known), now) else -1.0
            if left <= grace:
                until = now + grace * _MORE  # so that it need not be set again at once
                # The time of its last change stays: readers tell by it that a file is the same.
                os.utime(path, ns=(int((_ZERO + until) * 1e9), known.st_mtime_ns))
        except FileNotFoundError:
            return False
        return True

    def _held(self, until: float, now: float) -> bool:
        """After the machine was started again, nobody reads: times that nobody can have meant now count for nothing."""
        return now < until <= now + 2 * self._grace

    @contextmanager
    def writing(self, path: Path, hold: bool = False) -> Iterator[Path]:
        """A file to be, at another path; it comes to its own, whole, when this ends, and is held for a reader or not:
        then it may be gone again at once."""
        begun = path.parent / f".{uuid4().hex}{_BEGUN}"
        with self._locked():
            path.parent.mkdir(parents=True, exist_ok=True)
            begun.touch()
            os.utime(begun, (_ZERO + going(), time.time()))
        try:
            yield begun
            flush([begun])
            size = begun.stat().st_size
            self._used(begun, self._grace if hold else 0.0)
            with suppress(FileExistsError):
                os.link(begun, path)  # another may have brought it, and somebody may hold it
        except OSError as error:
            if error.errno == errno.ENOSPC:
                self.tidy(0)
            raise
        finally:
            begun.unlink(missing_ok=True)
        self._grown += size
        if self._grown >= self._limit / _PART or self._lacking() > 0:
            self._tidy()

    def room(self, size: int) -> None:
        """Raises `OSError` when a file of so many bytes would take of the disk what is for others, though all has gone
        that nobody holds."""
        if self._lacking(size) > 0:
            self._tidy(size)
            if self._lacking(size) > 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.folder))

    def _lacking(self, size: int = 0) -> int:
        """Bytes that are missing on the disk when so many more are taken."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return _RESERVE + size - shutil.disk_usage(self.folder).free

    def _tidy(self, size: int = 0) -> None:
        """Removes some more than need be, and does not try again at once where that was in vain: it takes long where
        there is much."""
        now = going()
        if self._grown >= self._limit / _PART or now - self._vain >= _PAUSE:
            self._grown = 0
            self.tidy(self._limit, size + self._limit // _PART if self._lacking(size) > 0 else 0)
            if self._lacking(size) > 0:
                self._vain = now

    def tidy(self, limit: int, size: int = 0) -> None:
        """Remove what goes first, until no more than so many bytes are left, and as many as `size` can come."""
        now, found = going(), []
        # Another process may be at it: what goes meanwhile is passed over.
        for path in [Path(folder, name) for folder, _, names in os.walk(self.folder) for name in names]:
            with suppress(FileNotFoundError):
                held = path.stat()
                if path.name.endswith(_BEGUN):
                    self._remove_left(path, held, now)
                elif not path.name.startswith("."):
                    known = _until(held) <= now + 2 * self._grace  # else from before the machine was started
                    found.append((_until(held) if known else 0.0, held.st_size, path))
        total = sum(size for _, size, _ in found)
        excess = max(total - limit, min(total, self._lacking(size)))
        for until, bytes_, path in sorted(found):
            if excess <= 0:
                return
            if not self._held(until, now) and self._remove(path, now):
                excess -= bytes_

    def _remove_left(self, path: Path, known: os.stat_result, now: float) -> None:
        """Remove what a process has left unfinished that died."""
        if self._left(known, now):
            with self._locked():
                if self._left(path.stat(), now):  # else it was just being made, and has its time now
                    path.unlink()

    def _left(self, known: os.stat_result, now: float) -> bool:
        return not -_LEFT < _until(known) - now <= 2 * self._grace

    def _remove(self, path: Path, now: float) -> bool:
        with self._locked():
            try:
                if self._held(_until(path.stat()), now):
                    return False
                path.unlink()
            except FileNotFoundError:
                return True
            with suppress(OSError):
                path.parent.rmdir()  # when it was the last
        return True

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Nothing is removed between being found and being held."""
        self.folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def _until(known: os.stat_result) -> float:
    """Until when a file was handed out, or when it was read, by `archiver.clock`."""
    return known.st_atime - _ZERO
