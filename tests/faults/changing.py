"""A process that reads files of a folder while they are changed, until killed.

`spark`: executors archive the batches, in this process. There is no JVM: a batch is handled by the
thread that discovered it.
"""

import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import sql
from archiver.chunks import CutPolicy
from archiver.executors import ExecutorIngest
from archiver.ingest import ArchiveWriter, SourceUnit
from archiver.ingest.engines import EnginePolicy
from archiver.times import to_micros
from moirae.config.settings import load_settings_from_environment
from moirae.config.table_schemas import stream_schema
from moirae.live.sources import file_input
from moirae.live.sources.archiving import InputArchiving
from moirae.live.unit_failures import UnitFailures
from moirae.runtime import database
from moirae.runtime.storage import open_storage
from sql.archive import UnitGateway
from tests.inline_jobs import InlineJobs


class _InlineQuery:
    """Handles a number when it is asked to."""

    def __init__(self, _spark: Any, _name: str, _folder: Path, handle: Callable[[], None]) -> None:
        self._handle = handle
        self._is_published = False

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def find_failure(self) -> None: ...

    def publish(self) -> None:
        self._is_published = True

    def run(self) -> None:
        while self._is_published:
            self._is_published = False
            self._handle()


class FileReader:
    """One process; a new one over the same workspace is a restart."""

    def __init__(self, root: Path, connection: sql.Connection, *, spark: bool) -> None:
        settings = load_settings_from_environment(root / "moirae.yaml")
        self.connection = connection
        self.archive = ArchiveWriter(
            open_storage(settings),
            [stream_schema(name, declared) for name, declared in settings.streams.items()],
            CutPolicy(1_000_000, 1 << 40),
            connection,
            lambda: None,
        )
        if spark:
            engines = self.archive.engines
            engines.policy = EnginePolicy("spark")
            engines.executors = ExecutorIngest(InlineJobs(), engines.sizes)
        failures: UnitFailures = SimpleNamespace(  # type: ignore[assignment]
            is_set_aside=lambda *_: False,
            record_listing=lambda *_: False,
            forget_missing=lambda *_: None,
            forget=lambda *_: None,
            select_readable=lambda units: units,
        )
        archiving = InputArchiving(
            archive=self.archive,
            ingest=self,
            failures=failures,
            units=UnitGateway(connection),
            lock=threading.Lock(),
        )
        with patch.object(file_input, "NumberQuery", _InlineQuery):
            self._input = file_input.FileInput(None, settings, archiving, drain=False)  # type: ignore[arg-type]
        self._input.start()

    def update(self) -> None:
        """Archive what is there."""
        self._input.update()
        self._input._query.run()  # type: ignore[attr-defined]
        assert self._input.failure is None, self._input.failure

    def ingest_units(self, units: Sequence[SourceUnit]) -> Sequence[SourceUnit]:
        """Archive units."""
        self.archive.ingest(units, to_micros(datetime.now(UTC)))
        return []

    def ingest_records(self, records: Any) -> None:
        """There are no topics."""


def open_reader(workspace: Path) -> FileReader:
    """A reader of the workspace's files."""
    root = workspace.parent
    settings = load_settings_from_environment(workspace)
    connection = database.connect_database(settings, "changing")
    return FileReader(root, connection, spark=(root / "spark").exists())


def main(workspace: Path) -> None:
    """Until killed."""
    reader = open_reader(workspace)
    while True:
        reader.update()
