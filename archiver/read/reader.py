"""Reading history: the rows of a stream in a span of event time, as Spark sees the newest version of its table."""

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from archiver.delta import DataFile, StreamSchema, StreamTable
from archiver.read.present_rows import PresentRows
from archiver.storage import StorageRoot
from archiver.times import from_micros, micros_column

# Column values that rows are wanted for; None: rows with any.
ColumnFilter = Mapping[str, Sequence[Any]]


def read_table(
    spark: SparkSession,
    table: StreamTable,
    low: int | None,
    high: int | None,
    include_late: bool,
    column_filter: ColumnFilter,
) -> DataFrame | None:
    """Declared columns of the files that may hold event times in [low, high) (microseconds); None: there are none.

    `late`: also rows that came late. Rows outside the span may be among them: a filter by a time that is another with
    each call would be compiled anew with each call.
    """
    return _read_files(
        spark,
        table.schema,
        table.lease_paths(table.data_files(low, high)),
        include_late,
        column_filter,
    )


def _read_files(
    spark: SparkSession, schema: StreamSchema, files: Sequence[str], late: bool, only: ColumnFilter
) -> DataFrame | None:
    if not files:
        return None
    rows = spark.read.schema(schema.ddl(["_late"])).parquet(*files)
    if not late:
        rows = rows.where("NOT _late")
    for name, wanted in only.items():
        rows = rows.where(F.col(f"`{name}`").isin(list(wanted)))
    return rows.select(*[f"`{name}`" for name in schema.columns])


def filter_time_range(rows: DataFrame, time: str, low: int | None, high: int | None) -> DataFrame:
    """Those of the rows whose event time is in [low, high), microseconds."""
    if low is not None:
        rows = rows.where(F.col(f"`{time}`") >= F.lit(from_micros(low)))
    if high is not None:
        rows = rows.where(F.col(f"`{time}`") < F.lit(from_micros(high)))
    return rows


TimeRange = tuple[int | None, int | None]


@dataclass(frozen=True)
class StreamSnapshot:
    """One version of a stream's rows: those in memory (declared columns and `_late`), and the files of the others, in
    `table`. `held`: all files that were looked at, also those whose rows are in memory; `appends`: see
    `StreamTable.appends`."""

    rows: Sequence[pa.Table] = ()
    files: Sequence[DataFile] = ()
    all_files: Sequence[DataFile] = ()
    append_count: int = 0
    table: StreamTable | None = None

    def lease_paths(self) -> list[str]:
        """Where to read the files: there for as long as a history query may take."""
        return [] if self.table is None else self.table.lease_paths(self.files)


class Reader:
    """The archive's streams for a process that only reads, for all of its threads.

    `memory`: bytes of the present chunks' rows to keep at hand, which `follow` reads; see `archiver.read.present_rows`.
    """

    def __init__(
        self, root: StorageRoot, schemas: Iterable[StreamSchema], memory_budget: int = 0
    ) -> None:
        self._root = root
        self._schemas = {schema.name: schema for schema in schemas}
        self._tables: dict[str, StreamTable] = {}
        self._present = PresentRows(memory_budget)
        self._lock = threading.RLock()

    @property
    def streams(self) -> Collection[str]:
        """The names of all that may be read."""
        return self._schemas.keys()

    def refresh(self, streams: Collection[str] | None = None) -> None:
        """See what was archived since, of some streams; None: of all."""
        with self._lock:
            for name, table in self._tables.items():
                if streams is None or name in streams:
                    table.refresh()

    def refresh_present(self, present_chunks: Collection[int]) -> None:
        """See what was archived since, and have the rows of the present chunks at hand."""
        with self._lock:
            self.refresh()
            tables = [table for name in self._schemas if (table := self._table(name)) is not None]
            self._present.refresh(tables, present_chunks)

    def snapshot(self, stream: str, low: int | None, high: int | None) -> StreamSnapshot:
        """The rows that may have event times in [low, high) (microseconds), in the version last seen."""
        with self._lock:
            table = self._table(stream)
            if table is None:
                return StreamSnapshot()
            rows, files = self._present.select(table, low, high)
            return StreamSnapshot(
                rows, files, table.data_files(low, high), table.append_count, table
            )

    def acquire(self, time_ranges: Mapping[str, TimeRange]) -> dict[str, StreamSnapshot]:
        """See what was archived since: the rows of some streams, each in a span, as they are at one moment."""
        with self._lock:
            self.refresh(time_ranges.keys())
            return {stream: self.snapshot(stream, *span) for stream, span in time_ranges.items()}

    def release(self) -> None:
        """What was looked at is not needed any more."""

    def read_dataframe(
        self,
        spark: SparkSession,
        stream: str,
        low: int | None,
        high: int | None,
        include_late: bool,
        column_filter: ColumnFilter,
    ) -> DataFrame:
        """See `read`; an empty frame where there is nothing."""
        schema, pinned = self.schema(stream), self.snapshot(stream, low, high)
        found = _read_files(spark, schema, pinned.lease_paths(), include_late, column_filter)
        held = [
            _filter_rows(rows, schema, low, high, include_late, column_filter)
            for rows in pinned.rows
        ]
        if not any(map(len, held)):
            return spark.createDataFrame([], schema.ddl()) if found is None else found
        at_hand = spark.createDataFrame(pa.concat_tables(held).combine_chunks())
        return at_hand if found is None else found.unionByName(at_hand)

    def local_paths(
        self, stream: str, low: int | None, high: int | None, chunk: int | None = None
    ) -> list[str]:
        """Where on this machine the files are, or would be, that may hold event times in a span, and rows of a chunk:
        to tell files apart."""
        with self._lock:
            table = self._table(stream)
            return [] if table is None else table.local_paths(low, high, chunk)

    def open_data_file(self, stream: str, path: str) -> Any:
        """One of these files, for pyarrow to read now."""
        table = self.table(stream)
        assert table is not None
        return table.storage.open_data_file(path.removeprefix(f"{table.data_folder}/"))

    def schema(self, stream: str) -> StreamSchema:
        """The declared columns of a stream."""
        return self._schemas[stream]

    def table(self, stream: str) -> StreamTable | None:
        """The table of a stream; None: nothing of it is archived yet."""
        with self._lock:
            return self._table(stream)

    def _table(self, stream: str) -> StreamTable | None:
        if stream not in self._tables:
            if not StreamTable.exists(self._root, stream):
                return None
            self._tables[stream] = StreamTable(self._root, self._schemas[stream])
        return self._tables[stream]


class SnapshotReader(Reader):
    """A reader for one query at a time: what it looks at stays as it was until it looks away. It has some streams from
    other readers: `lent`, by stream, as their lender has refreshed them."""

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
        """See what was archived since."""
        self._reader.refresh(streams)

    def refresh_present(self, present_chunks: Collection[int]) -> None:
        """See what was archived since, and have the rows of the present chunks at hand."""
        self._reader.refresh_present(present_chunks)

    def acquire(self, time_ranges: Mapping[str, TimeRange]) -> dict[str, StreamSnapshot]:
        """See `Reader.look`; what the query asks for lies within these spans."""
        found = self._reader.acquire(time_ranges)
        self._snapshots = found
        return found

    def release(self) -> None:
        """See `Reader.look_away`: rows in memory can go."""
        self._snapshots = {}

    def snapshot(self, stream: str, low: int | None, high: int | None) -> StreamSnapshot:
        """See `Reader.pin`."""
        looked = self._snapshots.get(stream)
        return self._reader_of(stream).snapshot(stream, low, high) if looked is None else looked

    def local_paths(
        self, stream: str, low: int | None, high: int | None, chunk: int | None = None
    ) -> list[str]:
        """See `Reader.files`."""
        looked, table = self._snapshots.get(stream), self.table(stream)
        if looked is None or table is None:
            return self._reader_of(stream).local_paths(stream, low, high, chunk)
        return table.to_local_paths(
            [
                file
                for file in looked.all_files
                if file.overlaps(low, high) and chunk in (None, file.chunk)
            ]
        )

    def schema(self, stream: str) -> StreamSchema:
        """See `Reader.schema`."""
        return self._reader_of(stream).schema(stream)

    def table(self, stream: str) -> StreamTable | None:
        """See `Reader.table`."""
        return self._reader_of(stream).table(stream)


def _filter_rows(
    rows: pa.Table,
    schema: StreamSchema,
    low: int | None,
    high: int | None,
    late: bool,
    only: ColumnFilter,
) -> pa.Table:
    if not late:
        rows = rows.filter(pc.invert(rows["_late"]))
    for name, wanted in only.items():
        rows = rows.filter(pc.is_in(rows[name], pa.array(wanted, rows.schema.field(name).type)))
    ts = micros_column(rows, schema.time)
    inside = (ts >= (low if low is not None else ts)) & (ts < high if high is not None else True)
    return rows.filter(pa.array(inside)).select(list(schema.columns))
