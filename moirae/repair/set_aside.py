"""Where damaged files go: a folder in the home of the workspace, so that nothing is deleted."""

import shutil
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from archiver.delta import ArchiveTable
from archiver.storage import LOG_FOLDER


class DamagedFolder:
    """The folder of one repair."""

    def __init__(self, home: Path) -> None:
        self.path = home / "damaged" / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"

    def set_aside(self, table: ArchiveTable, name: str) -> None:
        """Move a file of a table there, if it exists."""
        target = self.path / table.name / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError), table.storage.open_stream(name) as source:
            with target.open("wb") as file:
                shutil.copyfileobj(source, file)
            table.storage.remove(name)

    def set_checkpoint_aside(self, table: ArchiveTable, name: str) -> None:
        """Move a checkpoint of a log there, and the file that names the last one."""
        self.set_aside(table, name)
        self.set_aside(table, f"{LOG_FOLDER}/_last_checkpoint")

    def set_table_aside(self, table: ArchiveTable) -> None:
        """Move all files of a table there."""
        for name in table.storage.list_sizes():
            self.set_aside(table, name)
        table.storage.remove_all()
