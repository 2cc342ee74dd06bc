"""Reading history: the rows of a stream in a span of event time, as Spark sees the newest version of its table."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

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
    files = table.files(low, high)
    if not files:
        return None
    rows = spark.read.schema(table.schema.ddl(["_late"])).parquet(*files)
    if not late:
        rows = rows.where("NOT _late")
    for name, wanted in only.items():
        rows = rows.where(F.col(f"`{name}`").isin(list(wanted)))
    return rows.select(*[f"`{name}`" for name in table.schema.columns])


def within(rows: DataFrame, time: str, low: int | None, high: int | None) -> DataFrame:
    """Those of the rows whose event time is in [low, high), microseconds."""
    if low is not None:
        rows = rows.where(F.col(f"`{time}`") >= F.lit(from_micros(low)))
    if high is not None:
        rows = rows.where(F.col(f"`{time}`") < F.lit(from_micros(high)))
    return rows


class Reader:
    """The archive's streams for a process that only reads."""

    def __init__(self, root: Path, schemas: Iterable[StreamSchema]) -> None:
        self._root = root
        self._schemas = {schema.name: schema for schema in schemas}
        self._tables: dict[str, StreamTable] = {}

    def refresh(self) -> None:
        """See what was archived since."""
        for table in self._tables.values():
            table.refresh()

    def rows(
        self, spark: SparkSession, stream: str, low: int | None, high: int | None, late: bool, only: Only
    ) -> DataFrame:
        """See `read`; an empty frame where there is nothing."""
        table = self._table(stream)
        found = None if table is None else read(spark, table, low, high, late, only)
        return spark.createDataFrame([], self._schemas[stream].ddl()) if found is None else found

    def files(self, stream: str, low: int | None, high: int | None) -> list[str]:
        """Paths of the files that may hold event times in a span."""
        table = self._table(stream)
        return [] if table is None else table.files(low, high)

    def schema(self, stream: str) -> StreamSchema:
        """The declared columns of a stream."""
        return self._schemas[stream]

    def _table(self, stream: str) -> StreamTable | None:
        if stream not in self._tables:
            if not StreamTable.exists(self._root, stream):
                return None
            self._tables[stream] = StreamTable(self._root, self._schemas[stream])
        return self._tables[stream]
