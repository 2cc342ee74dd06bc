"""Files that nobody needs any more leave the disk, and logs are gathered."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from archiver.table import StreamTable


class Sweeper:
    """`retention`: seconds that files stay which are no part of a table, longer than any reader reads a list of files,
    and any writer takes to commit what it has written."""

    def __init__(self, retention: float) -> None:
        self._retention = retention
        self._gone: dict[Path, float] = {}

    def sweep(self, tables: Iterable[StreamTable], now: float) -> None:
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
