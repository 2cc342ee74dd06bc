"""The landing folder: accepted batches of rows that are not archived yet, one durable file each.

The server and `moirae ingest` write batches, the live process archives and removes them. The writer
names a batch; a batch written again under the same name replaces it and is archived once.
"""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO


@dataclass(frozen=True)
class LandedBatch:
    """A batch to be archived; `modified` is in microseconds since the epoch, `size` in bytes."""

    name: str
    path: Path
    modified: int
    size: int


class LandingFolder:
    """The batches of one stream, in `<home>/landing/<stream>`."""

    def __init__(self, home: Path, stream: str) -> None:
        self.stream = stream
        self.folder = home / "landing" / stream

    @contextmanager
    def open_batch(self, name: str, suffix: str) -> Iterator[BinaryIO]:
        """Open a file for a batch, which is durable and visible once the block ends.

        `suffix` names the format, such as `.jsonl` or `.csv.gz`. If the block raises, nothing
        remains.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        hidden = self.folder / f".{name}-{secrets.token_hex(4)}"
        try:
            with hidden.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(hidden, self.folder / f"{name}{suffix}")
        except BaseException:
            hidden.unlink(missing_ok=True)
            raise
        _sync_folder(self.folder)

    def write_batch(self, name: str, suffix: str, content: bytes) -> None:
        """Write a batch atomically and durably."""
        with self.open_batch(name, suffix) as file:
            file.write(content)

    def has_batch(self, name: str, suffix: str) -> bool:
        """Whether the batch is still to be archived."""
        return (self.folder / f"{name}{suffix}").exists()

    def pending_batches(self) -> list[LandedBatch]:
        """Batches in the order of their modification times, then names."""
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

    def remove_unfinished(self, prefix: str) -> None:
        """Delete the incomplete files of crashed writers, for batch names with this prefix."""
        for path in self.folder.glob(f".{prefix}*"):
            path.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
