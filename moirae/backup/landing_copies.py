"""Copies of accepted batches that are not archived.

Of a landing folder these are links, which stay when the batch is removed; objects are downloaded.
"""

import errno
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from moirae.runtime.storage import Landings


class LandingCopies:
    """The batches of all landing folders at several moments, in a folder of the same disk."""

    def __init__(self, landings: Landings, streams: Iterable[str], folder: Path) -> None:
        """`streams`: those that are declared; of a landing folder, all that have batches."""
        self._landings = landings
        self._streams = sorted(streams)
        self._folder = folder

    def collect(self) -> None:
        """Add the batches that are accepted now."""
        if self._landings.url is not None:
            self._download()
            return
        for stream, path in _list_batches(self._landings.home / "landing"):
            target = self._folder / stream / path.name
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                with suppress(FileNotFoundError):  # archived meanwhile
                    _link(path, target)

    def _download(self) -> None:
        self._landings.refresh()
        for stream in self._streams:
            for batch in self._landings.open(stream).pending_batches():
                target = self._folder / stream / f"{batch.name}{batch.suffix}"
                if target.exists():
                    continue
                target.parent.mkdir(parents=True, exist_ok=True)
                part = target.with_name(f".{target.name}")
                with suppress(FileNotFoundError):  # archived meanwhile
                    with batch.path.open("rb") as source, part.open("wb") as file:
                        shutil.copyfileobj(source, file)
                    os.utime(part, ns=(batch.modified * 1000, batch.modified * 1000))
                    part.rename(target)

    def clear(self) -> None:
        """Remove all copies."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def names(self) -> set[tuple[str, str]]:
        """Stream and name of the batches."""
        return {(stream, path.name.partition(".")[0]) for stream, path in self.list_files()}

    def list_files(self) -> list[tuple[str, Path]]:
        """Stream and copy of each batch, in order."""
        return sorted(_list_batches(self._folder))


def _list_batches(folder: Path) -> Iterator[tuple[str, Path]]:
    with suppress(FileNotFoundError):
        for stream_folder in list(os.scandir(folder)):
            if stream_folder.is_dir():
                for entry in list(os.scandir(stream_folder.path)):
                    if not entry.name.startswith("."):
                        yield stream_folder.name, Path(entry.path)


def _link(path: Path, target: Path) -> None:
    try:
        os.link(path, target)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK):
            raise
        shutil.copy2(path, target)
