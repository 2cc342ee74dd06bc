"""The landing folder of a home: accepted batches that are not archived yet, one durable file each.

A batch written again under the same name replaces it.
"""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from moirae.runtime.storage.landing import BatchPath, LandedBatch, Landing


class LandingFolder(Landing):
    """The batches of one stream, in `<home>/landing/<stream>`."""

    def __init__(self, home: Path, stream: str) -> None:
        self.stream = stream
        self.folder = home / "landing" / stream

    @contextmanager
    def open_batch(self, name: str, suffix: str, modified: int | None = None) -> Iterator[BinaryIO]:
        self.folder.mkdir(parents=True, exist_ok=True)
        hidden = self.folder / f".{name}-{secrets.token_hex(4)}"
        try:
            with hidden.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            if modified is not None:
                os.utime(hidden, ns=(modified * 1000, modified * 1000))
            os.replace(hidden, self.folder / f"{name}{suffix}")
        except BaseException:
            hidden.unlink(missing_ok=True)
            raise
        _sync_folder(self.folder)

    def has_batch(self, name: str, suffix: str) -> bool:
        return (self.folder / f"{name}{suffix}").exists()

    def pending_batches(self) -> list[LandedBatch]:
        return sorted(self._scan(), key=lambda batch: (batch.modified, batch.name))

    def _scan(self) -> Iterator[LandedBatch]:
        with suppress(FileNotFoundError), os.scandir(self.folder) as entries:
            for entry in entries:
                if not entry.name.startswith("."):
                    with suppress(FileNotFoundError):  # archived in the meantime
                        status = entry.stat()
                        yield LandedBatch(
                            name=entry.name.partition(".")[0],
                            path=Path(entry.path),
                            modified=status.st_mtime_ns // 1000,
                            size=status.st_size,
                        )

    def remove(self, path: BatchPath) -> None:
        assert isinstance(path, Path)
        path.unlink(missing_ok=True)

    def move_to(self, target: Landing) -> None:
        if not self.folder.is_dir():
            return
        assert isinstance(target, LandingFolder)
        target.folder.mkdir(parents=True, exist_ok=True)
        for path in self.folder.iterdir():
            os.replace(path, target.folder / path.name)
        with suppress(OSError):  # a batch was accepted meanwhile
            self.folder.rmdir()

    def remove_unfinished(self, prefix: str) -> None:
        for path in self.folder.glob(f".{prefix}*"):
            path.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
