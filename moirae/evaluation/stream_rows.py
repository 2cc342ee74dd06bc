"""On-time rows of streams as input of rules and contexts, from memory or from archived files."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from archiver.delta import DataFile, StreamTable
from archiver.ingest import ArchiveWriter
from archiver.read import Reader, filter_time_range, read_files
from archiver.times import micros_column
from moirae.evaluation.executor_rules import FileRows

_MAX_TABLE_ROWS = 500_000  # rows of archived files after which a table is yielded
_MIN_TIME = -(1 << 62)  # microseconds, before every event time

_TimeRange = tuple[int, int]  # event time in microseconds, without the end
_AllowedValues = Mapping[str, Sequence[Any]]  # by column; rows with other values are dropped


class LiveStreamRows:
    """Rows of the archive in the live process, which holds recent ones in memory."""

    def __init__(self, spark: SparkSession, archive: ArchiveWriter) -> None:
        self._spark = spark
        self._archive = archive

    def columns(self, stream: str) -> Mapping[str, str]:
        """The declared columns of a stream, with their types."""
        return self._archive.tables[stream].schema.columns

    def select_columns(self, stream: str, rows: pa.Table | None) -> pa.Table:
        """Rows with the declared columns only. None: an empty table."""
        schema = self._archive.tables[stream].schema
        if rows is None:
            rows = schema.arrow_schema().empty_table()
        return rows.select(list(schema.columns))

    def read_range(self, stream: str, low: int | None, high: int | None) -> pa.Table | DataFrame:
        """Rows with event times in [low, high), in microseconds.

        A table if memory holds all of them, else a data frame.
        """
        recent = self._archive.recent_rows[stream].read(low, high)
        if recent is not None:
            return recent
        rows = self.find_range(stream, low, high)
        if isinstance(rows, FileRows):
            return self.read_files(stream, rows)
        return rows

    def find_range(self, stream: str, low: int | None, high: int | None) -> pa.Table | FileRows:
        """Like `read_range`, but archived files instead of a data frame."""
        recent = self._archive.recent_rows[stream].read(low, high)
        if recent is not None:
            return recent
        table = self._archive.tables[stream]
        files = table.data_files(low, high)
        if not files:
            return self.select_columns(stream, None)
        return FileRows(table.files, files, low, high)

    def select_files(self, stream: str, files: Sequence[DataFile], low: int | None) -> FileRows:
        """The rows of some files from an event time on."""
        return FileRows(self._archive.tables[stream].files, files, low, None)

    def read_files(self, stream: str, rows: FileRows) -> DataFrame:
        """Rows of files as a data frame."""
        table = self._archive.tables[stream]
        frame = read_files(self._spark, table, rows.files)
        if frame is None:
            return self.to_frame(self.select_columns(stream, None))
        return filter_time_range(frame, table.schema.time, rows.low, rows.high)

    def read_tables(self, stream: str, low: int | None, high: int) -> Iterator[pa.Table]:
        """Rows with event times in [low, high), in microseconds, without Spark.

        One table if memory holds all of them, else tables of about `_MAX_TABLE_ROWS` rows.
        """
        recent = self._archive.recent_rows[stream].read(low, high)
        if recent is not None:
            yield recent
            return
        table = self._archive.tables[stream]
        time_ranges = [(_MIN_TIME, high)]
        if low is not None:
            time_ranges = [(low, high)]
        paths: list[str] = []
        row_count = 0
        for file in table.data_files(low, high):
            paths.append(file.path)
            row_count += file.rows
            if row_count >= _MAX_TABLE_ROWS:
                yield _read_files(table, paths, time_ranges, {})
                paths = []
                row_count = 0
        yield _read_files(table, paths, time_ranges, {})

    def estimate_count(self, stream: str, low: int | None, high: int | None) -> int:
        """An upper bound of the number of rows: the rows of all files that overlap [low, high)."""
        count = self.count_in_memory(stream, low, high)
        if count is not None:
            return count
        return sum(file.rows for file in self._archive.tables[stream].data_files(low, high))

    def count_in_memory(self, stream: str, low: int | None, high: int | None) -> int | None:
        """About how many rows [low, high) has, if memory holds all of them; else None."""
        return self._archive.recent_rows[stream].estimate_rows(low, high)

    def rows_near(
        self, stream: str, time_ranges: Sequence[_TimeRange], allowed_values: _AllowedValues
    ) -> DataFrame:
        """Rows with event times in any of some ranges and allowed values.

        They are read in this process, as they are few.
        """
        merged = _merge_ranges(time_ranges)
        recent = self._archive.recent_rows[stream].read(merged[0][0], merged[-1][1])
        table = self._archive.tables[stream]
        if recent is not None:
            rows = _filter_rows(recent, table.schema.time, merged, allowed_values)
        else:
            rows = _read_files(table, _paths(table, merged), merged, allowed_values)
        return self.to_frame(rows)

    def to_frame(self, rows: pa.Table) -> DataFrame:
        """A data frame of an Arrow table."""
        return self._spark.createDataFrame(rows)


class ArchivedStreamRows:
    """Rows of the archive in a process that only reads it."""

    def __init__(self, spark: SparkSession, reader: Reader) -> None:
        self._spark = spark
        self._reader = reader

    def columns(self, stream: str) -> Mapping[str, str]:
        """The declared columns of a stream, with their types."""
        return self._reader.schema(stream).columns

    def read_range(self, stream: str, low: int | None, high: int | None) -> DataFrame:
        """Rows with event times in [low, high), in microseconds."""
        frame = self._reader.read_dataframe(self._spark, stream, low, high, False, {})
        return filter_time_range(frame, self._reader.schema(stream).time, low, high)

    def rows_near(
        self, stream: str, time_ranges: Sequence[_TimeRange], allowed_values: _AllowedValues
    ) -> DataFrame:
        """Rows with event times in any of some ranges and allowed values.

        They are read in this process, as they are few.
        """
        table = self._reader.table(stream)
        if table is None:
            return self._spark.createDataFrame([], self._reader.schema(stream).ddl())
        merged = _merge_ranges(time_ranges)
        rows = _read_files(table, _paths(table, merged), merged, allowed_values)
        return self._spark.createDataFrame(rows)


def _paths(table: StreamTable, time_ranges: Sequence[_TimeRange]) -> list[str]:
    """The files that overlap any of some ranges, each once."""
    paths: dict[str, None] = {}
    for low, high in time_ranges:
        for file in table.data_files(low, high):
            paths[file.path] = None
    return list(paths)


def _read_files(
    table: StreamTable,
    paths: Sequence[str],
    time_ranges: Sequence[_TimeRange],
    allowed_values: _AllowedValues,
) -> pa.Table:
    columns = list(table.schema.columns)
    tables = [table.schema.arrow_schema().empty_table().select(columns)]
    for path in paths:
        rows = table.read_on_time(path, columns)
        tables.append(_filter_rows(rows, table.schema.time, time_ranges, allowed_values))
    return pa.concat_tables(tables).combine_chunks()


def _merge_ranges(time_ranges: Sequence[_TimeRange]) -> list[_TimeRange]:
    """Disjoint ranges that cover the same time, ascending. Ranges that touch become one."""
    merged: list[_TimeRange] = []
    for low, high in sorted(time_ranges):
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged


def _filter_rows(
    rows: pa.Table,
    time_column: str,
    time_ranges: Sequence[_TimeRange],
    allowed_values: _AllowedValues,
) -> pa.Table:
    """Rows within disjoint, ascending ranges and with allowed values."""
    for column, values in allowed_values.items():
        value_set = pa.array(values, rows.schema.field(column).type)
        rows = rows.filter(pc.is_in(rows[column], value_set))
    times = micros_column(rows, time_column)
    lows, highs = np.array(time_ranges).T
    # The last range that starts at or before each row; -1 if there is none.
    indexes = np.searchsorted(lows, times, side="right") - 1
    return rows.filter(pa.array((indexes >= 0) & (times < highs[indexes])))
