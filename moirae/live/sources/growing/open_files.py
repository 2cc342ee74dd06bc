"""Growing files that are kept open: what was renamed or deleted is read to its end."""

import os
import time
from contextlib import suppress
from pathlib import Path

from moirae.live.sources.growing.known_files import ListedFile

_MAX_OPEN = 500
# Seconds for which a file that is not listed any more is read, after its last change or listing: a
# writer may have it open. One without a name, which few programs write, is read for a shorter time.
_LINGER = 30.0
_LINGER_DELETED = 5.0
_HANDLES = Path("/proc/self/fd")


class OpenFiles:
    """Handles of growing files by number. A file is read through its handle, wherever it is."""

    def __init__(self) -> None:
        self._handles: dict[int, int] = {}
        # By number: when a file was first not listed, in seconds since 1970.
        self._unlisted_since: dict[int, float] = {}

    def keep(self, number: int, file: ListedFile) -> None:
        """Keep a file open, unless too many are, or its content is compressed."""
        if not is_handle(file):
            self._unlisted_since.pop(number, None)
        if number in self._handles or file.is_compressed or len(self._handles) >= _MAX_OPEN:
            return
        with suppress(OSError):
            handle = os.open(file.path, os.O_RDONLY)
            status = os.fstat(handle)
            if (status.st_dev, status.st_ino) == (file.device, file.inode):
                self._handles[number] = handle
            else:
                os.close(handle)

    def find(self, number: int, read_to: int) -> ListedFile | None:
        """A file that is not listed any more; None: it is not open, or was truncated."""
        handle = self._handles.get(number)
        if handle is None:
            return None
        self._unlisted_since.setdefault(number, time.time())
        status = os.fstat(handle)
        if status.st_size < read_to:
            return None
        path = _HANDLES / str(handle)
        return ListedFile(path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)

    def may_grow(self, number: int) -> bool:
        """Whether a file that is not listed any more has changed, or was listed, lately."""
        status = os.fstat(self._handles[number])
        linger = _LINGER if status.st_nlink else _LINGER_DELETED
        return time.time() - max(status.st_mtime, self._unlisted_since[number]) < linger

    def close(self, number: int) -> None:
        """Close a file that is not read any more."""
        self._unlisted_since.pop(number, None)
        handle = self._handles.pop(number, None)
        if handle is not None:
            os.close(handle)


def is_handle(file: ListedFile) -> bool:
    """Whether a file is not listed any more, and read through its handle."""
    return file.path.parent == _HANDLES
