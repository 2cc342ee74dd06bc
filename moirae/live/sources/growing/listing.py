"""Lists the files of a glob with their state, at little cost while nothing changes."""

import os
import stat
import time
from pathlib import Path

from archiver.globs import PathGlob, matches_part, parse_glob
from moirae.live.sources.growing.content import is_compressed, measure_content
from moirae.live.sources.growing.known_files import ListedFile

# Seconds for which a compressed file must not have changed before it is read.
_STABLE_AFTER = 2.0
_LISTING_SHARE = 0.1  # of the time
_MIN_INTERVAL = 0.1  # seconds


class GrowingFileListing:
    """The files that match a glob now. What cannot be read is left out until it can.

    `has_unfinished`: compressed files were left out that may still be written.
    """

    def __init__(self, pattern: str) -> None:
        self._globs = parse_glob(pattern)
        self._list_again_at = 0.0
        self.has_unfinished = False
        # By path, size and change of a compressed file: the size of its content.
        self._content_sizes: dict[tuple[str, int, int], int | None] = {}

    def list(self) -> list[ListedFile] | None:
        """The files by modification time and path; None: it is not time to list."""
        started_at = time.monotonic()
        if started_at < self._list_again_at:
            return None
        self.has_unfinished = False
        files: dict[Path, tuple[int, ListedFile]] = {}
        for path_glob in self._globs:
            for path in _expand(path_glob):
                listed = self._inspect(path)
                if listed is not None:
                    files[path] = listed
        now = time.monotonic()
        interval = max(_MIN_INTERVAL, (now - started_at) / _LISTING_SHARE)
        self._list_again_at = now + interval
        ordered = sorted(files.values(), key=lambda pair: (pair[0], str(pair[1].path)))
        # A file may have several names: links.
        by_inode: dict[tuple[int, int], ListedFile] = {}
        for _, file in ordered:
            by_inode.setdefault((file.device, file.inode), file)
        return list(by_inode.values())

    def _inspect(self, path: Path) -> tuple[int, ListedFile] | None:
        try:
            status = path.stat()
        except OSError:
            return None
        if not stat.S_ISREG(status.st_mode):
            return None
        size: int | None = status.st_size
        if is_compressed(path):
            size = self._measure(path, status)
        if not size:
            return None
        file = ListedFile(
            path, status.st_dev, status.st_ino, size, status.st_mtime_ns, is_compressed(path)
        )
        return status.st_mtime_ns, file

    def _measure(self, path: Path, status: os.stat_result) -> int | None:
        """The size of the content of a compressed file; None while it is written, or damaged."""
        if time.time() - status.st_mtime < _STABLE_AFTER:
            self.has_unfinished = True
            return None
        key = (str(path), status.st_size, status.st_mtime_ns)
        if key not in self._content_sizes:
            try:
                self._content_sizes[key] = measure_content(path)
            except (OSError, EOFError):
                self._content_sizes[key] = None
        return self._content_sizes[key]


def _expand(path_glob: PathGlob) -> list[Path]:
    folders = [Path(path_glob.folder)]
    for index, part in enumerate(path_glob.parts):
        is_last = index == len(path_glob.parts) - 1
        paths: list[Path] = []
        for folder in folders:
            try:
                names = os.listdir(folder)
            except OSError:
                continue
            for name in names:
                if not name.startswith(".") and matches_part(part, name):
                    paths.append(folder / name)
        folders = paths if is_last else [path for path in paths if path.is_dir()]
    return folders
