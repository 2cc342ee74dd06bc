"""What becomes of source files that are archived: kept, deleted, or moved to a folder.

A file is settled after the commit of its rows, and only if it has the size and modification time
that were read. A process that was killed before leaves it to the next one, which compares the
ledger with the files.
"""

import os
import shutil
from contextlib import suppress
from pathlib import Path

import structlog

from archiver.storage import ObjectPath, fsync_files
from moirae.live.sources.files import DiscoveredFile, stat_file

_LOG = structlog.get_logger()

_MOVE = "move:"


class SourceSettling:
    """Settles the files of one stream. `after`: keep, delete or move:FOLDER."""

    def __init__(self, after: str) -> None:
        self._delete = after == "delete"
        self._folder = Path(after.removeprefix(_MOVE)) if after.startswith(_MOVE) else None

    def settle(self, file: DiscoveredFile) -> None:
        """Delete or move an archived file. What fails is logged: the file stays."""
        path = file.path
        if isinstance(path, ObjectPath) or not (self._delete or self._folder):
            return
        present = stat_file(file.stream, path)
        if present is None or (present.size, present.modified) != (file.size, file.modified):
            return  # changed since: it is read again
        try:
            if self._folder is None:
                path.unlink()
            else:
                _move(path, self._folder)
        except OSError as error:
            _LOG.warning(
                "archived file cannot be removed from its folder",
                action="file_not_settled",
                stream=file.stream,
                name=str(path),
                error=error.strerror,
            )


def _move(path: Path, folder: Path) -> None:
    """Move a file into a folder, under a name that no other file there has."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / path.name
    number = 0
    while target.exists() and not _is_copy(path, target):
        number += 1
        target = folder / f"{path.name}.{number}"
    try:
        os.replace(path, target)
    except OSError:  # another file system
        part = folder / f".{target.name}.part"
        try:
            shutil.copy2(path, part)
            fsync_files([part])
            os.replace(part, target)
            fsync_files([], [folder])
        except OSError:
            with suppress(OSError):
                part.unlink()
            raise
        path.unlink()


def _is_copy(path: Path, target: Path) -> bool:
    """Whether a file was copied before a crash that left the original."""
    first, second = path.stat(), target.stat()
    same_version = (first.st_size, first.st_mtime_ns) == (second.st_size, second.st_mtime_ns)
    return same_version and path.read_bytes() == target.read_bytes()
