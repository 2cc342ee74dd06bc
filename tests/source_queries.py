"""The queries of a workspace's sources, which archive what they find without live detection."""

import threading
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
from moirae.live.sources import SourceQueries, UnreadFiles
from sql.archive import UnitGateway


def make_source_queries(
    settings: Settings,
    connection: sql.Connection,
    spark: SparkSession | None,
    record: Callable[[list[str]], object],
) -> SourceQueries:
    """Queries that are not started. `record` gets the names of the units of each batch.

    `spark` None: only for sources that are read without it.
    """
    archive = ArchiveWriter(
        Path(settings.archive),
        [stream_schema(name, declared) for name, declared in settings.streams.items()],
        CutPolicy(1000, 3_600_000_000),
        connection,
        lambda: None,
    )

    def ingest_units(units: Sequence[SourceUnit]) -> None:
        archive.ingest(units, to_micros(datetime.now(UTC)))
        record([unit.name for unit in units])

    ingest: Any = SimpleNamespace(ingest_units=ingest_units)
    session: Any = spark
    return SourceQueries(
        spark=session,
        settings=settings,
        archive=archive,
        ingest=ingest,
        unread_files=UnreadFiles(UnitGateway(connection).finished_names),
        lock=threading.Lock(),
        drain=False,
    )
