"""A Delta table without partitions, for one writing process at a time.

As in all tables of the archive, the commit that adds a file holds its digest, and a file is durable
before its commit. The deltalake library, which could write such tables, knows no tags of files.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import ceil
from typing import Any
from uuid import uuid4

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema
from deltalake.exceptions import TableNotFoundError

from archiver.clock import unix_now
from archiver.delta.digests import compute_digest, make_digest_tag
from archiver.delta.files import UNCLUSTERED_PREFIX
from archiver.delta.generation import read_generation
from archiver.delta.log import purge_log
from archiver.delta.protocol import (
    CommitSummary,
    TableMetadata,
    commit_info_action,
    encode_actions,
)
from archiver.errors import CommitConflict
from archiver.storage import LOG_FOLDER, Storage, StorageRoot, as_storage
from archiver.times import format_micros, micros_column

# The versions of the Delta protocol with change feeds, for readers and writers.
_PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 4}
_CHANGE_FOLDER = "_change_data"
_CHECKPOINT_INTERVAL = 100  # commits


@dataclass(frozen=True)
class TableFile:
    """A data file. `oldest`: the least event time in it; None: the log does not say."""

    path: str
    bytes: int
    oldest: datetime | None


class UnpartitionedTable:
    """The newest version of a table when it was opened, and after own commits.

    The table is created if it is absent. `time_column`: of its event time. With `has_changes`,
    a new table has a change feed.
    """

    def __init__(
        self,
        root: StorageRoot,
        schema: pa.Schema,
        application_id: str,
        *,
        time_column: str = "ts",
        has_changes: bool = False,
    ) -> None:
        self._storage = as_storage(root)
        self._schema = schema
        self._application_id = application_id
        self._time_column = time_column
        properties = {"delta.enableChangeDataFeed": "true"} if has_changes else {}
        self._table = _open_or_create(self._storage, schema, properties)

    def files(self) -> list[TableFile]:
        """The data files, in no particular order."""
        actions = pa.RecordBatchReader.from_stream(self._table.get_add_actions(flatten=True))
        table = actions.read_all()
        if not len(table):
            return []
        oldest = f"min.{self._time_column}"
        times = table[oldest].to_pylist() if oldest in table.column_names else [None] * len(table)
        rows = zip(table["path"].to_pylist(), table["size_bytes"].to_pylist(), times, strict=True)
        return [TableFile(*row) for row in rows]

    def read(self, path: str) -> pa.Table:
        """The rows of a data file. Raises `OSError` and `pa.ArrowException` if it is damaged."""
        rows = pq.read_table(self._storage.open_data_file(path), partitioning=None)
        return rows.select(self._schema.names).cast(self._schema)

    def commit(
        self,
        operation: str,
        add: Iterable[pa.Table],
        *,
        remove: Sequence[TableFile] = (),
        changes: pa.Table | None = None,
        number: int | None = None,
        data_change: bool = True,
    ) -> None:
        """Add files with rows, remove others, and set up to which number the table has its source.

        `changes`: for the change feed of a commit that adds and removes rows, with the column
        `_change_type`. Raises `CommitConflict` if another process has committed.
        """
        timestamp = int(unix_now() * 1_000)
        actions: list[Mapping[str, Any]] = [
            _remove_action(file, timestamp, data_change) for file in remove
        ]
        for rows in filter(len, add):
            actions.append(self._write(rows, timestamp, data_change))
        if changes is not None and len(changes):
            actions.append(self._write_changes(changes))
        if number is not None:
            actions.append(
                {
                    "txn": {
                        "appId": self._application_id,
                        "version": number,
                        "lastUpdated": timestamp,
                    }
                }
            )
        metadata = TableMetadata.of(self._table)
        info = commit_info_action(
            CommitSummary(operation),
            timestamp,
            in_commit_timestamp=metadata.has_in_commit_timestamps,
            generation=read_generation(metadata.properties),
        )
        version = self._table.version() + 1
        with self._storage.prepare_commit(encode_actions([info, *actions])) as commit:
            is_committed = commit(f"{LOG_FOLDER}/{version:020d}.json")
        if not is_committed:
            raise CommitConflict(f"{self._storage}: another process has written to the table")
        with self._storage.translate_errors():
            self._table.update_incremental()
            if version % _CHECKPOINT_INTERVAL == 0:
                self._table.create_checkpoint()
                self._table.cleanup_metadata()

    def vacuum(self, history: float) -> None:
        """Delete files that no version of the last `history` seconds has, and their changes."""
        with self._storage.translate_errors():
            self._table.vacuum(
                retention_hours=ceil(history / 3_600),
                enforce_retention_duration=False,
                dry_run=False,
                full=True,
            )

    def purge(self) -> None:
        """Remove what the newest version does not need: files, commits, and the change feed."""
        self.vacuum(0.0)
        with self._storage.translate_errors():
            self._table.create_checkpoint()
        purge_log(self._storage, int(self._table.version()))
        for name in (self._storage / _CHANGE_FOLDER).list_sizes():
            self._storage.remove(f"{_CHANGE_FOLDER}/{name}")

    def _write(self, rows: pa.Table, timestamp: int, data_change: bool) -> dict[str, Any]:
        """Write a data file, which is durable then. Returns the action that adds it."""
        path = f"{UNCLUSTERED_PREFIX}{uuid4().hex}.parquet"
        size, digest = self._write_file(path, rows)
        action = {
            "path": path,
            "partitionValues": {},
            "size": size,
            "modificationTime": timestamp,
            "dataChange": data_change,
            "stats": orjson.dumps(_statistics(rows, self._time_column)).decode(),
            "tags": make_digest_tag(digest),
        }
        return {"add": action}

    def _write_changes(self, changes: pa.Table) -> dict[str, Any]:
        path = f"{_CHANGE_FOLDER}/cdc-{uuid4().hex}.parquet"
        size, digest = self._write_file(path, changes)
        action = {
            "path": path,
            "partitionValues": {},
            "size": size,
            "dataChange": False,
            "tags": make_digest_tag(digest),
        }
        return {"cdc": action}

    def _write_file(self, path: str, rows: pa.Table) -> tuple[int, str]:
        with self._storage.write_data_file(path) as target:
            pq.write_table(rows, target, compression="zstd", store_schema=False)
            return target.stat().st_size, compute_digest(target)


def _statistics(rows: pa.Table, time_column: str) -> dict[str, Any]:
    """By which readers skip files: bounds of numbers and event times."""
    lows: dict[str, Any] = {}
    highs: dict[str, Any] = {}
    for field in rows.schema:
        if pa.types.is_integer(field.type):
            limits = pc.min_max(rows[field.name]).as_py()
            lows[field.name] = limits["min"]
            highs[field.name] = limits["max"]
    if pa.types.is_timestamp(rows.schema.field(time_column).type):
        times = micros_column(rows, time_column)
        lows[time_column] = format_micros(int(times.min()))
        highs[time_column] = format_micros(int(times.max()))
    nulls = {name: rows[name].null_count for name in lows}
    return {"numRecords": len(rows), "minValues": lows, "maxValues": highs, "nullCount": nulls}


def _remove_action(file: TableFile, timestamp: int, data_change: bool) -> dict[str, Any]:
    action = {
        "path": file.path,
        "deletionTimestamp": timestamp,
        "dataChange": data_change,
        "extendedFileMetadata": True,
        "partitionValues": {},
        "size": file.bytes,
    }
    return {"remove": action}


def _open_or_create(
    storage: Storage, schema: pa.Schema, properties: Mapping[str, str]
) -> DeltaTable:
    try:
        return storage.open_table()
    except TableNotFoundError:
        storage.create_log_folder()
    timestamp = int(unix_now() * 1_000)
    metadata = {
        "id": str(uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": Schema.from_arrow(schema).to_json(),
        "partitionColumns": [],
        "configuration": properties,
        "createdTime": timestamp,
    }
    info = commit_info_action(CommitSummary("CREATE TABLE"), timestamp)
    content = encode_actions([info, {"protocol": _PROTOCOL}, {"metaData": metadata}])
    with storage.prepare_commit(content) as commit:
        commit(f"{LOG_FOLDER}/{0:020d}.json")  # fails if another process has created the table
    return storage.open_table()
