"""Files that nobody needs any more are removed, and logs are gathered."""

from collections.abc import Iterable
from typing import Protocol

from archiver.place import Place


class Swept(Protocol):
    """A table, as far as it grows files that nobody needs."""

    @property
    def place(self) -> Place:
        """Where it stands."""

    def orphans(self) -> list[str]:
        """Files there that are no part of it."""

    def checkpoint(self) -> None:
        """Gather its log, when that has grown."""


class Sweeper:
    """`retention`: seconds that files stay which are no part of a table, longer than any reader reads a list of files,
    and any writer takes to commit what it has written; longer where the place says so."""

    def __init__(self, retention: float) -> None:
        self._retention = retention
        self._gone: dict[tuple[str, str], float] = {}

    def sweep(self, tables: Iterable[Swept], now: float) -> None:
        """Of all tables; `now`: seconds of a clock that goes on. Raises `OSError`, `DeltaError` and `ArchiverError`."""
        known = {str(table.place): table for table in tables}
        orphans = [(place, name) for place, table in known.items() for name in table.orphans()]
        self._gone = {one: self._gone.get(one, now) for one in orphans}
        for (name, file), seen in list(self._gone.items()):
            place = known[name].place
            if now - seen >= max(self._retention, place.patience):
                place.remove(file)
                del self._gone[name, file]
        for table in known.values():
            table.checkpoint()
