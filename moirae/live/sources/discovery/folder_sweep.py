"""Folders listed a little at a time, beside live work."""

import os
import time
from collections.abc import Iterator, Sequence

_SLICE_SECONDS = 0.002  # of each call
_NAMES_BETWEEN_LOOKS = 100  # at the clock


class FolderSweep:
    """Lists folders once. Raises `OSError` for one that exists and cannot be listed."""

    def __init__(self, folders: Sequence[str]) -> None:
        self.names: dict[str, set[str]] = {folder: set() for folder in folders}
        """What was there, by folder."""
        self.added_names: set[tuple[str, str]] = set()
        """Folders and names that were discovered meanwhile."""
        self.seconds = 0.0
        """That the listing has taken until now."""
        self._steps = self._list()

    def advance(self) -> bool:
        """List a little; whether all is listed."""
        started_at = time.monotonic()
        is_done = True
        for _ in self._steps:
            if time.monotonic() - started_at > _SLICE_SECONDS:
                is_done = False
                break
        self.seconds += time.monotonic() - started_at
        return is_done

    def _list(self) -> Iterator[None]:
        for folder, names in self.names.items():
            try:
                entries = os.scandir(folder)
            except (FileNotFoundError, NotADirectoryError):
                continue
            with entries:
                for entry in entries:
                    names.add(entry.name)
                    if len(names) % _NAMES_BETWEEN_LOOKS == 0:
                        yield
