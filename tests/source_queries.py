"""The queries of a workspace's sources, which archive what they find without live detection."""

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
from moirae.live.sources import FileInput, SourceQueries, TopicArchiving, TopicReaders
from sql.archive import UnitGateway
from sql.topics import SourceErrorGateway


def make_source_queries(
    settings: Settings,
    connection: sql.Connection,
    spark: SparkSession,
    record: Callable[[list[str]], object],
    drain: bool = False,
) -> SourceQueries:
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

    ingest: Any = SimpleNamespace(
        ingest_units=ingest_units,
        is_set_aside=lambda _unit: False,
        record_listing=lambda _stream, _problem: False,
        forget_missing=lambda _stream, _names: None,
        forget=lambda _units: None,
    )
    units = UnitGateway(connection)
    lock = threading.Lock()
    archiving = TopicArchiving(
        archive=archive,
        ingest=ingest,
        units=units,
        errors=SourceErrorGateway(connection),
        lock=lock,
    )
    files = FileInput(
        spark=spark,
        settings=settings,
        ingest=ingest,
        find_archived=units.finished_names,
        is_waiting=archive.is_waiting,
        lock=lock,
        drain=drain,
    )
    topics = TopicReaders(spark, settings, archiving, drain=drain)
    return SourceQueries(settings, files, topics, drain=drain)


def archive_present_files(
    settings: Settings, connection: sql.Connection, spark: SparkSession
) -> list[str]:
    """The names of the units of a drain, in their order."""
    names: list[str] = []
    queries = make_source_queries(settings, connection, spark, names.extend, drain=True)
    queries.start()
    try:
        update_until(queries, lambda: not queries.is_active())
    finally:
        queries.stop()
    return names


def update_until(queries: SourceQueries, condition: Callable[[], bool]) -> None:
    """Run the loop of the live process until a condition holds."""
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        queries.raise_failure()
        queries.update()
        time.sleep(0.02)
