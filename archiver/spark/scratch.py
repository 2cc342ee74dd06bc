"""Where a JVM puts things aside: a directory for as long as its process lives, whose remains the next one removes.

Spark makes some directories, and unpacks some native code, at each start, and leaves them behind when it is killed.
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
    """This process's directory, made when it is first asked for."""
    base = _base_folder()
    making = _lock(base, wait=True)
    try:
        for left in base.iterdir():
            _remove_if_abandoned(left)
        made = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=base))
        _lock(made, wait=True)  # until this process ends, however it may
    finally:
        os.close(making)
    return made


def _base_folder() -> Path:
    """One for all processes of a user, to which nobody else can write; where its name is another's, one that stays."""
    base = Path(tempfile.gettempdir()) / f"moirae-{os.getuid()}"
    with suppress(FileExistsError):
        base.mkdir(mode=0o700)
    found = base.lstat()
    own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022
    return base if own else Path(tempfile.mkdtemp(prefix="moirae-"))


def _lock(directory: Path, wait: bool) -> int:
    """A descriptor that holds the lock of a directory. Raises `BlockingIOError` where another process does."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _remove_if_abandoned(directory: Path) -> None:
    """Remove what a process that has ended has left."""
    try:
        descriptor = _lock(directory, wait=False)
    except OSError:
        return
    shutil.rmtree(directory, ignore_errors=True)
    os.close(descriptor)
