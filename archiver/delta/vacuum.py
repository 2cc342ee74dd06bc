"""Removal of unreferenced files, and checkpoints of logs."""

from collections.abc import Collection, Iterable
from typing import Protocol

from archiver.delta.files import is_written_by_moirae
from archiver.storage import LOG_FOLDER, Storage

# Seconds that uncommitted files of other programs stay: their jobs may run for long.
_OTHERS_FILE_RETENTION = 86_400.0


class Vacuumable(Protocol):
    """A table that can be vacuumed."""

    @property
    def storage(self) -> Storage:
        """The folder of the table."""

    def unreferenced_files(self, history: float = 0.0) -> list[str]:
        """List files that are no part of a version of the last `history` seconds."""

    def forget_files(self, paths: Collection[str]) -> None:
        """Forget unreferenced files, which were deleted."""

    def checkpoint(self) -> None:
        """Write a checkpoint of the log if many commits were made since the last."""


class Vacuum:
    """Removes files that have been unreferenced for some time.

    `file_retention`: seconds for which unreferenced files stay, counted from when they are first
    seen. It is longer than any reader uses a list of files, and any writer takes to commit a file
    it has written. The storage may require a longer time (`Storage.min_file_retention`).
    `history`: seconds for which files that were part of a table stay, counted from the commit that
    removed them.
    """

    def __init__(self, file_retention: float, history: float = 0.0) -> None:
        self._file_retention = file_retention
        self._history = history
        # When a file was first seen unreferenced: (storage, file) -> seconds.
        self._first_seen: dict[tuple[str, str], float] = {}

    def run(self, tables: Iterable[Vacuumable], now: float) -> None:
        """Vacuum and checkpoint tables. `now`: seconds of a monotonic clock.

        Raises `OSError`, `DeltaError` and `ArchiverError`.
        """
        tables_by_storage = {str(table.storage): table for table in tables}
        first_seen: dict[tuple[str, str], float] = {}
        for name, table in tables_by_storage.items():
            for file in table.unreferenced_files(self._history):
                first_seen[name, file] = self._first_seen.get((name, file), now)
        self._first_seen = first_seen
        for (name, file), seen_at in list(first_seen.items()):
            storage = tables_by_storage[name].storage
            retention = max(self._file_retention, storage.min_file_retention)
            if not is_written_by_moirae(file) and not file.startswith(LOG_FOLDER):
                retention = max(retention, _OTHERS_FILE_RETENTION)
            if now - seen_at >= retention:
                storage.remove(file)
                tables_by_storage[name].forget_files([file])
                del first_seen[name, file]
        for table in tables_by_storage.values():
            table.checkpoint()
