"""Files that nobody needs any more are removed, and logs are gathered."""

from collections.abc import Iterable
from typing import Protocol

from archiver.storage import Storage


class Vacuumable(Protocol):
    """A table, as far as it grows files that nobody needs."""

    @property
    def storage(self) -> Storage:
        """Where it stands."""

    def unreferenced_files(self) -> list[str]:
        """Files there that are no part of it."""

    def checkpoint(self) -> None:
        """Gather its log, when that has grown."""


class Vacuum:
    """`retention`: seconds that files stay which are no part of a table, longer than any reader reads a list of files,
    and any writer takes to commit what it has written; longer where the place says so."""

    def __init__(self, file_retention: float) -> None:
        self._file_retention = file_retention
        self._first_seen: dict[tuple[str, str], float] = {}

    def run(self, tables: Iterable[Vacuumable], now: float) -> None:
        """Of all tables; `now`: seconds of a clock that goes on. Raises `OSError`, `DeltaError` and `ArchiverError`."""
        known = {str(table.storage): table for table in tables}
        orphans = [
            (place, name) for place, table in known.items() for name in table.unreferenced_files()
        ]
        self._first_seen = {one: self._first_seen.get(one, now) for one in orphans}
        for (name, file), seen in list(self._first_seen.items()):
            place = known[name].storage
            if now - seen >= max(self._file_retention, place.min_file_retention):
                place.remove(file)
                del self._first_seen[name, file]
        for table in known.values():
            table.checkpoint()
