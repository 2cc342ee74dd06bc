"""Rows of streams as Spark sees them: what has just come, what is in memory, what lies in files."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from archiver.delta import StreamTable
from archiver.ingest import ArchiveWriter
from archiver.read import Reader, filter_time_range, read_table
from archiver.times import micros_column

# Rows that are read from files at a time.
_TABLE_ROWS = 500_000
# Before all time, in microseconds.
_MIN_TIME = -(1 << 62)


class LiveStreamRows:
    """On-time rows of the archive, for one Spark session."""

    def __init__(self, spark: SparkSession, archive: ArchiveWriter) -> None:
        self._spark = spark
        self._archive = archive

    def columns(self, stream: str) -> Mapping[str, str]:
        """The declared columns of a stream, with their types."""
        return self._archive.tables[stream].schema.columns

    def select_columns(self, stream: str, rows: pa.Table | None) -> pa.Table:
        """Rows at hand, or none."""
        schema = self._archive.tables[stream].schema
        columns = list(schema.columns)
        return (
            rows.select(columns)
            if rows is not None
            else schema.arrow_schema().empty_table().select(columns)
        )

    def read_range(self, stream: str, low: int | None, high: int | None) -> pa.Table | DataFrame:
        """Rows with event times in [low, high), microseconds: where memory holds them all a table,
        else a frame.
        """
        recent = self._archive.recent_rows[stream].read(low, high)
        if recent is not None:
            return recent
        table = self._archive.tables[stream]
        found = read_table(self._spark, table, low, high, False, {})
        return (
            self.select_columns(stream, None)
            if found is None
            else filter_time_range(found, table.schema.time, low, high)
        )

    def read_tables(self, stream: str, low: int | None, high: int) -> Iterator[pa.Table]:
        """The same rows, read here: at once where memory holds them all, else about so many at a
        time.
        """
        recent = self._archive.recent_rows[stream].read(low, high)
        if recent is not None:
            yield recent
            return
        table = self._archive.tables[stream]
        files, rows = [], 0
        for file in table.data_files(low, high):
            files.append(file.path)
            rows += file.rows
            if rows >= _TABLE_ROWS:
                yield _read_files(table, files, [(_MIN_TIME if low is None else low, high)], {})
                files, rows = [], 0
        yield _read_files(table, files, [(_MIN_TIME if low is None else low, high)], {})

    def estimate_count(self, stream: str, low: int | None, high: int | None) -> int:
        """About how many rows `archived` gives: those of all files that hold some of them."""
        at_hand = self.count_in_memory(stream, low, high)
        return (
            sum(f.rows for f in self._archive.tables[stream].data_files(low, high))
            if at_hand is None
            else at_hand
        )

    def count_in_memory(self, stream: str, low: int | None, high: int | None) -> int | None:
        """The same, where memory holds them all; else None."""
        return self._archive.recent_rows[stream].estimate_rows(low, high)

    def rows_near(
        self,
        stream: str,
        time_ranges: Sequence[tuple[int, int]],
        allowed_values: Mapping[str, Sequence[Any]],
    ) -> DataFrame:
        """Rows with event times in any of some spans [low, high), microseconds, read here: they are
        few.
        """
        merged = _merge_ranges(time_ranges)
        recent = self._archive.recent_rows[stream].read(merged[0][0], merged[-1][1])
        table = self._archive.tables[stream]
        if recent is not None:
            return self.to_frame(_filter_rows(recent, table.schema.time, merged, allowed_values))
        return self.to_frame(_read_files(table, _paths(table, merged), merged, allowed_values))

    def to_frame(self, rows: pa.Table) -> DataFrame:
        """An Arrow table."""
        return self._spark.createDataFrame(rows)


class ArchivedStreamRows:
    """On-time rows of the archive for a process that only reads; see `Rows`."""

    def __init__(self, spark: SparkSession, reader: Reader) -> None:
        self._spark = spark
        self._reader = reader

    def columns(self, stream: str) -> Mapping[str, str]:
        """The declared columns of a stream, with their types."""
        return self._reader.schema(stream).columns

    def read_range(self, stream: str, low: int | None, high: int | None) -> DataFrame:
        """Rows with event times in [low, high), microseconds."""
        rows = self._reader.read_dataframe(self._spark, stream, low, high, False, {})
        return filter_time_range(rows, self._reader.schema(stream).time, low, high)

    def rows_near(
        self,
        stream: str,
        time_ranges: Sequence[tuple[int, int]],
        allowed_values: Mapping[str, Sequence[Any]],
    ) -> DataFrame:
        """Rows with event times in any of some spans [low, high), microseconds, read here: they are
        few.
        """
        table = self._reader.table(stream)
        if table is None:
            return self._spark.createDataFrame([], self._reader.schema(stream).ddl())
        merged = _merge_ranges(time_ranges)
        return self._spark.createDataFrame(
            _read_files(table, _paths(table, merged), merged, allowed_values)
        )


def _paths(table: StreamTable, spans: Sequence[tuple[int, int]]) -> list[str]:
    return list(
        dict.fromkeys(file.path for low, high in spans for file in table.data_files(low, high))
    )


def _read_files(
    table: StreamTable,
    paths: Sequence[str],
    spans: Sequence[tuple[int, int]],
    only: Mapping[str, Sequence[Any]],
) -> pa.Table:
    columns = list(table.schema.columns)
    parts = [table.schema.arrow_schema().empty_table().select(columns)]
    for path in paths:
        rows = table.read_on_time(path, columns)
        parts.append(_filter_rows(rows, table.schema.time, spans, only))
    return pa.concat_tables(parts).combine_chunks()


def _merge_ranges(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans that touch as one, ascending."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(spans):
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged


def _filter_rows(
    rows: pa.Table, time: str, spans: Sequence[tuple[int, int]], only: Mapping[str, Sequence[Any]]
) -> pa.Table:
    for name, wanted in only.items():
        rows = rows.filter(pc.is_in(rows[name], pa.array(wanted, rows.schema.field(name).type)))
    ts = micros_column(rows, time)
    place = np.searchsorted(np.array([low for low, _ in spans]), ts, side="right") - 1
    highs = np.array([high for _, high in spans])
    return rows.filter(pa.array((place >= 0) & (ts < highs[place])))
