"""Growing files that are kept open: what was renamed or deleted is read to its end."""

import os
import time
from contextlib import suppress
from pathlib import Path

from moirae.live.sources.growing.known_files import ListedFile

_MAX_OPEN = 500
# Seconds for which a file that no longer matches the glob is read, after its last change.
_LINGER = 30.0


class OpenFiles:
    """Handles of growing files by number. A file is read through its handle, wherever it is."""

    def __init__(self) -> None:
        self._handles: dict[int, int] = {}

    def keep(self, number: int, file: ListedFile) -> None:
        """Keep a file open, unless too many are, or its content is compressed."""
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
        """A file that is not listed any more, while it may grow or has more than was read.

        None: it is not open, was truncated, or is complete.
        """
        handle = self._handles.get(number)
        if handle is None:
            return None
        status = os.fstat(handle)
        is_done = status.st_nlink == 0 or time.time() - status.st_mtime > _LINGER
        if status.st_size < read_to or (is_done and status.st_size == read_to):
            return None
        path = Path(f"/proc/self/fd/{handle}")
        return ListedFile(path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)

    def close(self, number: int) -> None:
        """Close a file that is not read any more."""
        handle = self._handles.pop(number, None)
        if handle is not None:
            os.close(handle)
