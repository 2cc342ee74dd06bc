"""The archive of a workspace, as a back-test reads it. Nothing is written."""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

import sql
from archiver.ingest import Catalog
from archiver.read import Reader
from archiver.times import Micros, duration_to_micros
from moirae.alerts import AlertStream
from moirae.config import Settings
from moirae.history import PastFinder, RelationVersions
from moirae.live import Relations
from moirae.runtime.storage import open_storage, recalled_streams


@dataclass(frozen=True)
class BacktestArchive:
    """`finder`: evaluates rules. `watermarks`: by stream. `oldest`, `newest`: of the rows.

    `has_alerts`: contexts may read the alerts of other rules; there are none of files.
    """

    finder: PastFinder
    reader: Reader
    watermarks: Mapping[str, Micros | None]
    oldest: Mapping[str, Micros]
    newest: Mapping[str, Micros]
    has_alerts: bool = True

    @classmethod
    def create(
        cls,
        finder: PastFinder,
        reader: Reader,
        watermarks: Mapping[str, Micros | None],
        *,
        has_alerts: bool = True,
    ) -> "BacktestArchive":
        """`reader`: of the archive over which `finder` evaluates."""
        oldest: dict[str, Micros] = {}
        newest: dict[str, Micros] = {}
        for stream in reader.streams:
            files = reader.snapshot(stream).all_files
            if files:
                oldest[stream] = min(file.oldest for file in files)
                newest[stream] = max(file.newest for file in files)
        return cls(finder, reader, watermarks, oldest, newest, has_alerts)


def open_archive(
    settings: Settings, connection: sql.Connection, spark: SparkSession
) -> BacktestArchive:
    """The archive as it is now."""
    schemas = recalled_streams(settings, connection)
    catalog = Catalog(connection)
    lateness = {schema.name: duration_to_micros(schema.lateness) for schema in schemas}
    watermarks = catalog.watermarks(lateness)
    reader = Reader(open_storage(settings), schemas)
    columns = {name: relation.columns for name, relation in settings.relations.items()}
    relations = RelationVersions(
        Relations(connection, settings.relations).table,
        frozenset(columns),
        columns,
        AlertStream(connection),
    )
    finder = PastFinder(
        spark,
        reader,
        relations,
        settings.recall.engine,
        first_times=catalog.first_times(),
    )
    return BacktestArchive.create(finder, reader, watermarks)
