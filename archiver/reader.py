"""Reading history: the rows of a stream in a span of event time, as Spark sees the newest version of its table."""

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from archiver.admission import column
from archiver.log import DataFile
from archiver.place import Root
from archiver.present import PresentRows
from archiver.schema import StreamSchema
from archiver.table import StreamTable
from archiver.times import from_micros

# Column values that rows are wanted for; None: rows with any.
Only = Mapping[str, Sequence[Any]]


def read(
    spark: SparkSession, table: StreamTable, low: int | None, high: int | None, late: bool, only: Only
) -> DataFrame | None:
    """Declared columns of the files that may hold event times in [low, high) (microseconds); None: there are none.

    `late`: also rows that came late. Rows outside the span may be among them: a filter by a time that is another with
    each call would be compiled anew with each call.
    """
    return _read_files(spark, table.schema, table.paths(table.held(low, high)), late, only)


def _read_files(
    spark: SparkSession, schema: StreamSchema, files: Sequence[str], late: bool, only: Only
) -> DataFrame | None:
    if not files:
        return None
    rows = spark.read.schema(schema.ddl(["_late"])).parquet(*files)
    if not late:
        rows = rows.where("NOT _late")
    for name, wanted in only.items():
        rows = rows.where(F.col(f"`{name}`").isin(list(wanted)))
    return rows.select(*[f"`{name}`" for name in schema.columns])


def within(rows: DataFrame, time: str, low: int | None, high: int | None) -> DataFrame:
    """Those of the rows whose event time is in [low, high), microseconds."""
    if low is not None:
        rows = rows.where(F.col(f"`{time}`") >= F.lit(from_micros(low)))
    if high is not None:
        rows = rows.where(F.col(f"`{time}`") < F.lit(from_micros(high)))
    return rows


Span = tuple[int | None, int | None]


@dataclass(frozen=True)
class Pinned:
    """One version of a stream's rows: those in memory (declared columns and `_late`), and the files of the others, in
    `table`. `held`: all files that were looked at, also those whose rows are in memory; `appends`: see
    `StreamTable.appends`."""

    rows: Sequence[pa.Table] = ()
    files: Sequence[DataFile] = ()
    held: Sequence[DataFile] = ()
    appends: int = 0
    table: StreamTable | None = None

    def paths(self) -> list[str]:
        """Where to read the files: there for as long as a history query may take."""
        return [] if self.table is None else self.table.paths(self.files)


class Reader:
    """The archive's streams for a process that only reads, for all of its threads.

    `memory`: bytes of the present chunks' rows to keep at hand, which `follow` reads; see `archiver.present`.
    """

    def __init__(self, root: Root, schemas: Iterable[StreamSchema], memory: int = 0) -> None:
        self._root = root
        self._schemas = {schema.name: schema for schema in schemas}
        self._tables: dict[str, StreamTable] = {}
        self._present = PresentRows(memory)
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

    def follow(self, present: Collection[int]) -> None:
        """See what was archived since, and have the rows of the present chunks at hand."""
        with self._lock:
            self.refresh()
            tables = [table for name in self._schemas if (table := self._table(name)) is not None]
            self._present.follow(tables, present)

    def pin(self, stream: str, low: int | None, high: int | None) -> Pinned:
        """The rows that may have event times in [low, high) (microseconds), in the version last seen."""
        with self._lock:
            table = self._table(stream)
            if table is None:
                return Pinned()
            rows, files = self._present.take(table, low, high)
            return Pinned(rows, files, table.held(low, high), table.appends, table)

    def look(self, spans: Mapping[str, Span]) -> dict[str, Pinned]:
        """See what was archived since: the rows of some streams, each in a span, as they are at one moment."""
        with self._lock:
            self.refresh(spans.keys())
            return {stream: self.pin(stream, *span) for stream, span in spans.items()}

    def look_away(self) -> None:
        """What was looked at is not needed any more."""

    def rows(
        self, spark: SparkSession, stream: str, low: int | None, high: int | None, late: bool, only: Only
    ) -> DataFrame:
        """See `read`; an empty frame where there is nothing."""
        schema, pinned = self.schema(stream), self.pin(stream, low, high)
        found = _read_files(spark, schema, pinned.paths(), late, only)
        held = [_chosen(rows, schema, low, high, late, only) for rows in pinned.rows]
        if not any(map(len, held)):
            return spark.createDataFrame([], schema.ddl()) if found is None else found
        at_hand = spark.createDataFrame(pa.concat_tables(held).combine_chunks())
        return at_hand if found is None else found.unionByName(at_hand)

    def files(self, stream: str, low: int | None, high: int | None, chunk: int | None = None) -> list[str]:
        """Where on this machine the files are, or would be, that may hold event times in a span, and rows of a chunk:
        to tell files apart."""
        with self._lock:
            table = self._table(stream)
            return [] if table is None else table.files(low, high, chunk)

    def source(self, stream: str, file: str) -> Any:
        """One of these files, for pyarrow to read now."""
        table = self.table(stream)
        assert table is not None
        return table.place.source(file.removeprefix(f"{table.path}/"))

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


class Lending(Reader):
    """A reader for one query at a time: what it looks at stays as it was until it looks away. It has some streams from
    other readers: `lent`, by stream, as their lender has refreshed them."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._looked: Mapping[str, Pinned] = {}
        self.lent: dict[str, Reader] = {}

    def _of(self, stream: str) -> Reader:
        return self.lent.get(stream, self._reader)

    def refresh(self, streams: Collection[str] | None = None) -> None:
        """See what was archived since."""
        self._reader.refresh(streams)

    def follow(self, present: Collection[int]) -> None:
        """See what was archived since, and have the rows of the present chunks at hand."""
        self._reader.follow(present)

    def look(self, spans: Mapping[str, Span]) -> dict[str, Pinned]:
        """See `Reader.look`; what the query asks for lies within these spans."""
        found = self._reader.look(spans)
        self._looked = found
        return found

    def look_away(self) -> None:
        """See `Reader.look_away`: rows in memory can go."""
        self._looked = {}

    def pin(self, stream: str, low: int | None, high: int | None) -> Pinned:
        """See `Reader.pin`."""
        looked = self._looked.get(stream)
        return self._of(stream).pin(stream, low, high) if looked is None else looked

    def files(self, stream: str, low: int | None, high: int | None, chunk: int | None = None) -> list[str]:
        """See `Reader.files`."""
        looked, table = self._looked.get(stream), self.table(stream)
        if looked is None or table is None:
            return self._of(stream).files(stream, low, high, chunk)
        return table.named([file for file in looked.held if file.within(low, high) and chunk in (None, file.chunk)])

    def schema(self, stream: str) -> StreamSchema:
        """See `Reader.schema`."""
        return self._of(stream).schema(stream)

    def table(self, stream: str) -> StreamTable | None:
        """See `Reader.table`."""
        return self._of(stream).table(stream)


def _chosen(
    rows: pa.Table, schema: StreamSchema, low: int | None, high: int | None, late: bool, only: Only
) -> pa.Table:
    if not late:
        rows = rows.filter(pc.invert(rows["_late"]))
    for name, wanted in only.items():
        rows = rows.filter(pc.is_in(rows[name], pa.array(wanted, rows.schema.field(name).type)))
    ts = column(rows, schema.time)
    inside = (ts >= (low if low is not None else ts)) & (ts < high if high is not None else True)
    return rows.filter(pa.array(inside)).select(list(schema.columns))
