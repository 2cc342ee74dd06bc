"""The readers of a workspace's sources, which archive what they find without live detection."""

import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pyspark.sql import SparkSession

import sql
from archiver.chunks import CutPolicy
from archiver.ingest import ArchiveWriter, SourceUnit
from archiver.times import to_micros
from moirae.config import Settings, stream_schema
from moirae.live.set_aside import SetAside
from moirae.live.sources import (
    FileInput,
    GrowingFileInput,
    InputArchiving,
    Sources,
    TopicReaders,
)
from moirae.live.unit_failures import UnitFailures
from sql.archive import GrowingFileGateway, SetAsideGateway, UnitGateway
from sql.topics import SourceErrorGateway


def make_source_readers(
    settings: Settings,
    connection: sql.Connection,
    spark: SparkSession,
    record: Callable[[list[str]], object],
    drain: bool = False,
) -> Sources:
    """Queries that are not started. `record` gets the names of the units of each batch."""
    archive = ArchiveWriter(
        Path(settings.archive),
        [stream_schema(name, declared) for name, declared in settings.streams.items()],
        CutPolicy(1000, 3_600_000_000),
        connection,
        lambda: None,
    )

    def ingest_units(units: Sequence[SourceUnit]) -> Sequence[SourceUnit]:
        archive.ingest(units, to_micros(datetime.now(UTC)))
        record([unit.name for unit in units])
        return []

    ingest: Any = SimpleNamespace(ingest_units=ingest_units)
    units = UnitGateway(connection)
    archiving = InputArchiving(
        archive=archive,
        ingest=ingest,
        failures=UnitFailures(SetAside(SetAsideGateway(connection)), units),
        units=units,
        lock=threading.Lock(),
    )
    sources = [
        FileInput(spark, settings, archiving, drain=drain),
        TopicReaders(spark, settings, archiving, SourceErrorGateway(connection), drain=drain),
        GrowingFileInput(settings, archiving, GrowingFileGateway(connection), drain=drain),
    ]
    return Sources(sources, archive, drain=drain)


def archive_present_files(
    settings: Settings, connection: sql.Connection, spark: SparkSession
) -> list[str]:
    """The names of the units of a drain, in their order."""
    names: list[str] = []
    readers = make_source_readers(settings, connection, spark, names.extend, drain=True)
    readers.start()
    try:
        update_until(readers, lambda: not readers.is_active())
    finally:
        readers.stop()
    return names


def update_until(readers: Sources, condition: Callable[[], bool]) -> None:
    """Run the loop of the live process until a condition holds."""
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        assert readers.failure is None, readers.failure
        readers.update()
        time.sleep(0.02)
