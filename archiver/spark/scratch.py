"""Temporary directories of JVMs: one for each process, removed by the next one after it has ended.

At each start Spark creates directories and unpacks native libraries, and leaves them behind when it
is killed.
"""

import fcntl
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path


@cache
def scratch_folder() -> Path:
    """Return this process's directory; the first call creates it and removes abandoned ones."""
    base = _base_folder()
    base_lock = _lock(base, wait=True)
    try:
        for directory in base.iterdir():
            _remove_if_abandoned(directory)
        own_directory = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=base))
        _lock(own_directory, wait=True)  # held until this process ends
    finally:
        os.close(base_lock)
    return own_directory


def _base_folder() -> Path:
    """Return the folder of the user's directories, which no other user can write to.

    If its name is in use by another user, return a new folder, which is never removed.
    """
    base = Path(tempfile.gettempdir()) / f"moirae-{os.getuid()}"
    with suppress(FileExistsError):
        base.mkdir(mode=0o700)
    status = base.lstat()
    is_private = status.st_uid == os.getuid() and not status.st_mode & 0o022
    if stat.S_ISDIR(status.st_mode) and is_private:
        return base
    return Path(tempfile.mkdtemp(prefix="moirae-"))


def _lock(directory: Path, wait: bool) -> int:
    """Lock a directory; the lock is held while the returned descriptor is open.

    Raises `BlockingIOError` without `wait` if another process has the lock.
    """
    operation = fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, operation)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _remove_if_abandoned(directory: Path) -> None:
    """Remove the directory of a process that has ended, recognised by its free lock."""
    try:
        descriptor = _lock(directory, wait=False)
    except OSError:
        return
    shutil.rmtree(directory, ignore_errors=True)
    os.close(descriptor)
