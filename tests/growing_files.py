"""A live process's reading of growing files over a real archive, without detection."""

import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import sql
from archiver.chunks import CutPolicy
from archiver.ingest import ArchiveWriter, SourceUnit
from archiver.times import to_micros
from moirae.config.settings import load_settings_from_environment
from moirae.config.table_schemas import stream_schema
from moirae.live.sources.archiving import InputArchiving
from moirae.live.sources.growing import GrowingFileInput
from moirae.live.unit_failures import UnitFailures
from moirae.runtime.storage import open_storage
from sql.archive import GrowingFileGateway, UnitGateway

STREAM = """
streams:
  app:
    columns: {{ts: timestamp, message: string}}
    time: {{column: ts, zone: UTC}}
    lateness: 1h
    source: {{files: {files}, format: {format}, tail: true{options}}}
"""
TEXT = r"text, pattern: '(?P<ts>\S+) (?P<message>.*)'"


class GrowingFileReader:
    """One process; a new one over the same workspace is a restart."""

    def __init__(self, root: Path, connection: sql.Connection, *, drain: bool = False) -> None:
        settings = load_settings_from_environment(root / "moirae.yaml")
        self.connection = connection
        self.archive = ArchiveWriter(
            open_storage(settings),
            [stream_schema(name, declared) for name, declared in settings.streams.items()],
            CutPolicy(1_000_000, 1 << 40),
            connection,
            lambda: None,
        )
        failures: UnitFailures = SimpleNamespace()  # type: ignore[assignment]
        archiving = InputArchiving(
            archive=self.archive,
            ingest=self,
            failures=failures,
            units=UnitGateway(connection),
            lock=threading.Lock(),
        )
        self.input = GrowingFileInput(
            settings, archiving, GrowingFileGateway(connection), drain=drain
        )
        self.input.start()

    def ingest_units(self, units: Sequence[SourceUnit]) -> Sequence[SourceUnit]:
        """Archive units."""
        self.archive.ingest(units, to_micros(datetime.now(UTC)))
        return []

    def ingest_records(self, records: Any) -> None:
        """There are no topics."""

    def messages(self) -> list[str]:
        """The archived messages in the order of files and offsets."""
        table = self.archive.tables["app"].read(["message", "_unit", "_line"])
        rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
        numbers = dict(self.connection.execute("SELECT id, partition::int FROM units").fetchall())
        return [text for text, unit, line in sorted(rows, key=lambda r: (numbers[r[1]], r[2]))]

    def update(self, *, wait: float = 0.0) -> list[str]:
        """Read what is there; the archived messages."""
        import time

        deadline = time.monotonic() + wait
        while True:
            time.sleep(0.11)
            self.input.update()
            if time.monotonic() >= deadline and not self.input.has_unread("app"):
                return self.messages()
            if time.monotonic() > deadline + 20:
                return self.messages()
