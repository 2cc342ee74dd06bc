"""Measures what the workspace takes on disk, at intervals, for `status`, metrics and pages."""

import os
import threading
from collections.abc import Sequence
from contextlib import suppress

import structlog
from deltalake.exceptions import DeltaError

import sql
from archiver.delta import ArchiveTable, StreamSchema, TableMeasurement, list_tables
from archiver.errors import ArchiverError
from archiver.storage import LocalStorage, StorageRoot, as_storage
from moirae.config import Settings
from moirae.errors import MoiraeError
from moirae.runtime import connect_database
from moirae.runtime.storage import archived_streams, open_storage
from sql.archive import ALL_CHUNKS, StoredBytesGateway, StoredBytesRow

_LOG = structlog.get_logger()

_FIRST_AFTER = 10.0  # seconds
_INTERVAL = 300.0  # seconds between two measurements
_NICENESS = 15
_KINDS = {"rows": "revisions"}  # of tables that are not named like their kind
_INDEXES = "indexes"
_ERRORS = (sql.DatabaseError, MoiraeError, ArchiverError, DeltaError, OSError)


def measure_stored_bytes(
    root: StorageRoot,
    schemas: Sequence[StreamSchema],
    gateway: StoredBytesGateway,
    measurement: TableMeasurement,
) -> None:
    """Measure all tables, the indexes and the database, and store it."""
    sizes: dict[tuple[str, str, int], int] = {}

    def add(kind: str, size: int, stream: str = "", chunk: int = ALL_CHUNKS) -> None:
        key = kind, stream, chunk
        sizes[key] = sizes.get(key, 0) + size

    streams = {schema.table_name: schema for schema in schemas}
    for table in list_tables(root):
        schema = streams.get(_stream_of(table))
        columns = frozenset(schema.columns) if schema and table.kind == "stream" else frozenset()
        measured = measurement.measure(table, columns)
        if measured is None:
            continue
        stream = "" if schema is None else schema.name
        if table.kind == "stream":
            for chunk, chunk_bytes in measured.chunks.items():
                add("columns", chunk_bytes.columns, stream, chunk)
                add("place", chunk_bytes.place, stream, chunk)
        else:
            kind = _KINDS.get(table.kind, table.kind)
            add(kind, measured.files, stream)
        add("log", measured.log, stream)
        add("superseded", measured.superseded, stream)
    add(_INDEXES, _measure_indexes(root))
    add("database", gateway.measure_database())
    gateway.replace([StoredBytesRow(*key, size) for key, size in sizes.items()])


def _stream_of(table: ArchiveTable) -> str:
    """The folder of the stream of a table of rows or summaries; "": of neither."""
    parts = table.name.split("/")
    return parts[1] if table.kind in ("stream", "summaries") else ""


def _measure_indexes(root: StorageRoot) -> int:
    """Indexes are always on the local machine."""
    folder = LocalStorage(as_storage(root).work_folder) / _INDEXES
    return sum(folder.list_sizes().values())


def run_measurements(settings: Settings, stop: threading.Event) -> None:
    """Measure until `stop` is set. Where database or archive are away, it goes on later."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
    measurement = TableMeasurement(settings.archive_history.total_seconds())
    interval = _FIRST_AFTER
    while not stop.wait(interval):
        interval = _INTERVAL
        try:
            with connect_database(settings, "measure bytes") as connection:
                measure_stored_bytes(
                    open_storage(settings),
                    archived_streams(settings, connection),
                    StoredBytesGateway(connection),
                    measurement,
                )
        except _ERRORS as error:
            _LOG.warning("measuring bytes failed", action="measurement_failed", error=str(error))
