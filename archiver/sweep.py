"""Files that nobody needs any more leave the disk, and logs are gathered."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Protocol


class Swept(Protocol):
    """A table, as far as it grows files that nobody needs."""

    @property
    def path(self) -> Path:
        """Where it stands."""

    def orphans(self) -> list[str]:
        """Files below that which are no part of it."""

    def checkpoint(self) -> None:
        """Gather its log, when that has grown."""


class Sweeper:
    """`retention`: seconds that files stay which are no part of a table, longer than any reader reads a list of files,
    and any writer takes to commit what it has written."""

    def __init__(self, retention: float) -> None:
        self._retention = retention
        self._gone: dict[Path, float] = {}

    def sweep(self, tables: Iterable[Swept], now: float) -> None:
        """Of all tables; `now`: seconds of a clock that goes on. Raises `OSError`, `DeltaError` and `ArchiverError`."""
        known = list(tables)
        orphans = {table.path / path for table in known for path in table.orphans()}
        self._gone = {path: self._gone.get(path, now) for path in orphans}
        for path in [path for path, seen in self._gone.items() if now - seen >= self._retention]:
            path.unlink(missing_ok=True)
            del self._gone[path]
            with suppress(OSError):
                path.parent.rmdir()  # when it was the last
        for table in known:
            table.checkpoint()
