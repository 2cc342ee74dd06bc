"""Read the rows of a stream in a range of event time, from memory and files."""

import threading
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from archiver.delta import (
    EXTRA_COLUMN,
    DataFile,
    StoredColumn,
    StreamSchema,
    StreamTable,
    TableFiles,
)
from archiver.read.present_rows import PresentRows
from archiver.spark import sees_driver_files
from archiver.storage import LocalStorage, StorageRoot
from archiver.time_range import ALL_TIME, TimeRange
from archiver.times import Micros, from_micros, micros_column

WIDE_SCAN_ROWS = 200_000
"""Rows of files from which tasks on executors open the files by name: as many as one task reads.

The Python workers of tasks take longer to start than fewer rows take to read otherwise.
"""

_END_OF_TIME = 1 << 63  # microseconds, after all event times
_BATCH_ROWS = 50_000  # rows that a task passes to the JVM at a time

# Accepted values by column; rows with other values are filtered out.
ColumnFilter = Mapping[str, Sequence[Any]]


def read_files(
    spark: SparkSession, table: StreamTable, files: Sequence[DataFile]
) -> DataFrame | None:
    """The on-time rows of files with the columns that queries may name; None without any file."""
    rewritten = table.declaration.changes.rewritten
    snapshot = StreamSnapshot(files=files, table=table, rewritten=rewritten)
    return _read_files(spark, snapshot, include_late=False, column_filter={})


def _select_files(files: Sequence[DataFile], include_late: bool) -> list[DataFile]:
    """Files without those of other programs, whose rows are history: read like late rows."""
    return [file for file in files if include_late or not file.is_foreign]


def _read_files(
    spark: SparkSession,
    snapshot: "StreamSnapshot",
    include_late: bool,
    column_filter: ColumnFilter,
) -> DataFrame | None:
    """Rows of the files of a snapshot; None without any file.

    Files of object storage are read through the cache of this machine if they are few, and if tasks
    see it. Otherwise tasks open them themselves.
    """
    table = snapshot.table
    files = _select_files(snapshot.files, include_late)
    if not files or table is None:
        return None
    schema = table.schema
    is_local = isinstance(table.storage, LocalStorage)
    is_few = sum(file.rows for file in files) < WIDE_SCAN_ROWS
    if is_local or (is_few and sees_driver_files(spark)):
        stored = replace(schema, columns=_stored_columns(schema, snapshot))
        rows = spark.read.schema(stored.ddl([EXTRA_COLUMN, "_late"])).parquet(
            *table.lease_paths(files)
        )
        for name, column in snapshot.rewritten.items():
            converted = F.col(f"`{name}`").cast(schema.columns[name])
            rows = rows.withColumnRenamed(column.name, name).withColumn(name, converted)
        if not include_late:
            rows = rows.where("NOT _late")
    else:
        names = spark.createDataFrame(pa.table({"path": [file.path for file in files]}))
        open_files = partial(_open_files, table.files, include_late)
        rows = names.mapInArrow(open_files, schema.ddl([EXTRA_COLUMN]))
    for name, values in column_filter.items():
        rows = rows.where(F.col(f"`{name}`").isin(list(values)))
    return rows.select(*[f"`{name}`" for name in schema.query_columns])


def _stored_columns(schema: StreamSchema, snapshot: "StreamSnapshot") -> dict[str, str]:
    """Names and types of the declared columns in the files of a snapshot."""
    columns: dict[str, str] = {}
    for name, type_name in schema.columns.items():
        stored_name, stored_type = snapshot.rewritten.get(name, (name, type_name))
        columns[stored_name] = stored_type
    return columns


def _open_files(
    files: TableFiles, include_late: bool, names: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The rows of files with the columns that queries may name, one file at a time. Runs in a task."""
    read = files.read if include_late else files.read_on_time
    for batch in names:
        for path in batch["path"].to_pylist():
            yield from read(path, list(files.schema.query_columns)).to_batches(_BATCH_ROWS)


def filter_time_range(rows: DataFrame, time: str, time_range: TimeRange) -> DataFrame:
    """The rows whose event time is in a range. `time`: name of its column."""
    start, end = time_range
    if start is not None:
        rows = rows.where(F.col(f"`{time}`") >= F.lit(from_micros(start)))
    if end is not None:
        rows = rows.where(F.col(f"`{time}`") < F.lit(from_micros(end)))
    return rows


@dataclass(frozen=True)
class StreamSnapshot:
    """The rows of a stream in a range of event time, in one version of its table.

    `rows`: the rows in memory, with the columns that queries may name and `_late`. `files`: the files of the
    remaining rows, in `table`. `all_files`: also the files whose rows are in memory.
    `append_count`: see `StreamTable.append_count`. `table`: None if nothing is archived yet.
    `rewritten`: the columns that the files store under another name or type.
    """

    rows: Sequence[pa.Table] = ()
    files: Sequence[DataFile] = ()
    all_files: Sequence[DataFile] = ()
    append_count: int = 0
    table: StreamTable | None = None
    rewritten: Mapping[str, StoredColumn] = field(default_factory=dict)

    def within(self, ranges: Sequence[TimeRange]) -> "StreamSnapshot":
        """The snapshot without the files that hold no time of some ranges.

        These are in ascending order and apart. A single one leaves it as it is: the snapshot was
        taken for it.
        """
        if len(ranges) < 2:
            return self
        return replace(
            self,
            files=_overlapping(self.files, ranges),
            all_files=_overlapping(self.all_files, ranges),
        )

    def lease_paths(self) -> list[str]:
        """Paths of `files` that stay readable for as long as a history query may run."""
        if self.table is None:
            return []
        return self.table.lease_paths(self.files)


def _overlapping(files: Iterable[DataFile], ranges: Sequence[TimeRange]) -> list[DataFile]:
    """The files that may hold times of ranges, which are in ascending order and apart."""
    overlapping = []
    for file in files:
        # The first range that ends after the oldest row.
        first = bisect_right(ranges, file.oldest, key=_range_end)
        if first < len(ranges) and file.overlaps(ranges[first]):
            overlapping.append(file)
    return overlapping


def _range_end(time_range: TimeRange) -> Micros:
    return _END_OF_TIME if time_range.end is None else time_range.end


class Reader:
    """Reads the archive's streams in a process that does not write them. Thread-safe.

    `memory_budget`: bytes for rows of the present chunks, which `refresh_present` loads; see
    `archiver.read.present_rows`.
    """

    def __init__(
        self, root: StorageRoot, schemas: Iterable[StreamSchema], memory_budget: int = 0
    ) -> None:
        self._root = root
        self._schemas = {schema.name: schema for schema in schemas}
        self._tables: dict[str, StreamTable] = {}
        self._present = PresentRows(memory_budget)
        # Versions of the tables, and present chunks, of which the rows are in memory.
        self._present_versions: object = None
        self._lock = threading.RLock()

    @property
    def streams(self) -> Collection[str]:
        """The names of all readable streams."""
        return self._schemas.keys()

    def refresh(self, streams: Collection[str] | None = None) -> None:
        """Load the newest version of the tables of `streams`; None: of all."""
        with self._lock:
            for name, table in self._tables.items():
                if streams is None or name in streams:
                    table.refresh()

    def refresh_present(self, present_chunks: Collection[int]) -> bool:
        """Load the newest version of all tables, and rows of the present chunks into memory.

        Returns whether anything has changed since the last call.
        """
        with self._lock:
            self.refresh()
            tables = []
            for name, schema in self._schemas.items():
                # Under a name before, which few recalls use, rows are read from files.
                table = self._table(name) if schema.renamed_to is None else None
                if table is not None:
                    tables.append(table)
            versions = [(table.schema.name, table.version) for table in tables]
            loaded = versions, frozenset(present_chunks)
            if loaded == self._present_versions:
                return False
            self._present.refresh(tables, present_chunks)
            self._present_versions = loaded
            return True

    def snapshot(self, stream: str, time_range: TimeRange = ALL_TIME) -> StreamSnapshot:
        """The rows that may have event times in a range, in the loaded version.

        Rows of other event times may be among them.
        """
        with self._lock:
            table = self._table(stream)
            if table is None:
                return StreamSnapshot()
            all_files = table.data_files(time_range)
            rows, files = self._present.select(table, time_range, all_files)
            return StreamSnapshot(
                rows=rows,
                files=files,
                all_files=all_files,
                append_count=table.append_count,
                table=table,
                rewritten=table.declaration.changes.rewritten,
            )

    def acquire(self, time_ranges: Mapping[str, TimeRange]) -> dict[str, StreamSnapshot]:
        """Refresh the streams, and take snapshots of their ranges at one moment, by stream."""
        with self._lock:
            self.refresh(time_ranges.keys())
            return {name: self.snapshot(name, bounds) for name, bounds in time_ranges.items()}

    def release(self) -> None:
        """End the use of the acquired snapshots; no effect here, see `SnapshotReader`."""

    def read_dataframe(
        self,
        spark: SparkSession,
        stream: str,
        time_range: TimeRange,
        include_late: bool,
        column_filter: ColumnFilter,
        ranges: Sequence[TimeRange] = (),
    ) -> DataFrame:
        """Rows of files and rows in memory; an empty frame without any row.

        `ranges`: parts of the range; files that hold no time of them are left out.
        """
        schema = self.schema(stream)
        snapshot = self.snapshot(stream, time_range)
        if ranges:
            snapshot = snapshot.within(ranges)
        frame: DataFrame | None = None
        if snapshot.table is not None:
            frame = _read_files(spark, snapshot, include_late, column_filter)
        parts = [
            _filter_rows(rows, schema, time_range, include_late, column_filter)
            for rows in snapshot.rows
        ]
        if any(map(len, parts)):
            in_memory = spark.createDataFrame(pa.concat_tables(parts).combine_chunks())
            frame = in_memory if frame is None else frame.unionByName(in_memory)
        if frame is None:
            return spark.createDataFrame([], schema.ddl())
        return frame

    def local_paths(
        self, stream: str, time_range: TimeRange = ALL_TIME, chunk: int | None = None
    ) -> list[str]:
        """Local paths of the files that may hold event times in a range, and rows of a chunk.

        `chunk` None: of any. The files need not exist here: a path serves as the name of a file.
        """
        with self._lock:
            table = self._table(stream)
            return [] if table is None else table.local_paths(time_range, chunk)

    def open_data_file(self, stream: str, path: str) -> Any:
        """Open the file of a path that `local_paths` returned, for pyarrow."""
        table = self.table(stream)
        assert table is not None
        return table.storage.open_data_file(path.removeprefix(f"{table.data_folder}/"))

    def schema(self, stream: str) -> StreamSchema:
        """The schema of a stream."""
        return self._schemas[stream]

    def table(self, stream: str) -> StreamTable | None:
        """The table of a stream; None if nothing is archived yet."""
        with self._lock:
            return self._table(stream)

    def rows_in_memory(self, stream: str) -> pa.Table | None:
        """All rows of a stream, if they are in memory and in no file."""
        return None

    def _table(self, stream: str) -> StreamTable | None:
        if stream not in self._tables:
            schema = self._schemas[stream]
            if not StreamTable.exists(self._root, schema.table_name):
                return None
            self._tables[stream] = StreamTable(self._root, schema)
        return self._tables[stream]


class SnapshotReader(Reader):
    """Reads for one query at a time, from snapshots that do not change between acquire and release.

    `readers_by_stream`: readers used instead of the main reader for some streams. Their owner
    refreshes them.
    """

    def __init__(self, reader: Reader) -> None:
        super().__init__(reader._root, reader._schemas.values())
        self._reader = reader
        self._snapshots: Mapping[str, StreamSnapshot] = {}
        self.readers_by_stream: dict[str, Reader] = {}

    @property
    def streams(self) -> Collection[str]:
        """The names of all that may be read, also of what is lent."""
        return {*self._reader.streams, *self.readers_by_stream}

    def _table(self, stream: str) -> StreamTable | None:
        return self.table(stream)

    def _reader_of(self, stream: str) -> Reader:
        return self.readers_by_stream.get(stream, self._reader)

    def refresh(self, streams: Collection[str] | None = None) -> None:
        """See `Reader.refresh`."""
        self._reader.refresh(streams)

    def refresh_present(self, present_chunks: Collection[int]) -> bool:
        """See `Reader.refresh_present`."""
        return self._reader.refresh_present(present_chunks)

    def acquire(self, time_ranges: Mapping[str, TimeRange]) -> dict[str, StreamSnapshot]:
        """See `Reader.acquire`. The query must not read outside of these ranges."""
        snapshots = self._reader.acquire(time_ranges)
        self._snapshots = snapshots
        return snapshots

    def release(self) -> None:
        """Drop the snapshots, so that their rows in memory can be freed."""
        self._snapshots = {}

    def snapshot(self, stream: str, time_range: TimeRange = ALL_TIME) -> StreamSnapshot:
        """The acquired snapshot of a stream; without one, see `Reader.snapshot`."""
        snapshot = self._snapshots.get(stream)
        if snapshot is None:
            return self._reader_of(stream).snapshot(stream, time_range)
        return snapshot

    def local_paths(
        self, stream: str, time_range: TimeRange = ALL_TIME, chunk: int | None = None
    ) -> list[str]:
        """See `Reader.local_paths`."""
        snapshot = self._snapshots.get(stream)
        table = self.table(stream)
        if snapshot is None or table is None:
            return self._reader_of(stream).local_paths(stream, time_range, chunk)
        files = []
        for file in snapshot.all_files:
            if file.overlaps(time_range) and chunk in (None, file.chunk):
                files.append(file)
        return table.to_local_paths(files)

    def schema(self, stream: str) -> StreamSchema:
        """See `Reader.schema`."""
        return self._reader_of(stream).schema(stream)

    def table(self, stream: str) -> StreamTable | None:
        """See `Reader.table`."""
        return self._reader_of(stream).table(stream)


def _filter_rows(
    rows: pa.Table,
    schema: StreamSchema,
    time_range: TimeRange,
    include_late: bool,
    column_filter: ColumnFilter,
) -> pa.Table:
    """The rows in a range that pass the filters, without `_late`."""
    if not include_late:
        rows = rows.filter(pc.invert(rows["_late"]))
    for name, values in column_filter.items():
        accepted = pa.array(values, rows.schema.field(name).type)
        rows = rows.filter(pc.is_in(rows[name], accepted))
    is_inside = time_range.mask(micros_column(rows, schema.time))
    return rows.filter(pa.array(is_inside)).select(list(schema.query_columns))
