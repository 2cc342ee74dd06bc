"""The landing folder: what was accepted and not archived yet, each batch a file that outlives a
power cut.

The server and `moirae ingest` put batches in, the live process archives them and removes them. A
batch is named by who puts it there: put again under its name it is the same batch, and is archived
once.
"""

import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO


@dataclass(frozen=True)
class LandedBatch:
    """A batch that waits: its name, file, time of modification in microseconds and size in bytes."""

    name: str
    path: Path
    modified: int
    size: int


class LandingFolder:
    """The batches of one stream."""

    def __init__(self, home: Path, stream: str) -> None:
        self.stream = stream
        self.folder = home / "landing" / stream

    @contextmanager
    def open_batch(self, name: str, suffix: str) -> Iterator[BinaryIO]:
        """A file to write a batch to; where the block ends well, the batch is durable and has
        appeared.

        `suffix` tells its format, `.gz` at its end that it is packed.
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
        """Make a batch appear, whole and durable."""
        with self.open_batch(name, suffix) as file:
            file.write(content)

    def has_batch(self, name: str, suffix: str) -> bool:
        """Whether the batch waits here."""
        return (self.folder / f"{name}{suffix}").exists()

    def pending_batches(self) -> list[LandedBatch]:
        """Batches in the order of their appearance: by time of modification, then name."""
        return sorted(self._scan(), key=lambda landed: (landed.modified, landed.name))

    def _scan(self) -> Iterator[LandedBatch]:
        with suppress(FileNotFoundError), os.scandir(self.folder) as entries:
            for entry in entries:
                if not entry.name.startswith("."):
                    with suppress(FileNotFoundError):  # archived meanwhile
                        status = entry.stat()
                        path = Path(entry.path)
                        name = entry.name.partition(".")[0]
                        yield LandedBatch(name, path, status.st_mtime_ns // 1000, status.st_size)

    def remove(self, batches: Iterable[LandedBatch]) -> None:
        """Remove batches that are archived."""
        for batch in batches:
            batch.path.unlink(missing_ok=True)

    def remove_unfinished(self, prefix: str) -> None:
        """Remove what writers of such names left unfinished when they fell."""
        for path in self.folder.glob(f".{prefix}*"):
            path.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
