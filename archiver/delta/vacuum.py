"""Removal of unreferenced files, and checkpoints of logs."""

from collections.abc import Iterable
from typing import Protocol

from archiver.storage import Storage


class Vacuumable(Protocol):
    """A table that can be vacuumed."""

    @property
    def storage(self) -> Storage:
        """The folder of the table."""

    def unreferenced_files(self) -> list[str]:
        """List files in the folder that are no part of the table's newest version."""

    def checkpoint(self) -> None:
        """Write a checkpoint of the log if many commits were made since the last."""


class Vacuum:
    """Removes files that have been unreferenced for some time.

    `file_retention`: seconds for which unreferenced files stay, counted from when they are first
    seen. It is longer than any reader uses a list of files, and any writer takes to commit a file
    it has written. The storage may require a longer time (`Storage.min_file_retention`).
    """

    def __init__(self, file_retention: float) -> None:
        self._file_retention = file_retention
        # When a file was first seen unreferenced: (storage, file) -> seconds.
        self._first_seen: dict[tuple[str, str], float] = {}

    def run(self, tables: Iterable[Vacuumable], now: float) -> None:
        """Vacuum and checkpoint tables. `now`: seconds of a monotonic clock.

        Raises `OSError`, `DeltaError` and `ArchiverError`.
        """
        tables_by_storage = {str(table.storage): table for table in tables}
        first_seen: dict[tuple[str, str], float] = {}
        for name, table in tables_by_storage.items():
            for file in table.unreferenced_files():
                first_seen[name, file] = self._first_seen.get((name, file), now)
        self._first_seen = first_seen
        for (name, file), seen_at in list(first_seen.items()):
            storage = tables_by_storage[name].storage
            if now - seen_at >= max(self._file_retention, storage.min_file_retention):
                storage.remove(file)
                del first_seen[name, file]
        for table in tables_by_storage.values():
            table.checkpoint()
