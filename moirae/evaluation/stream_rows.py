"""On-time rows of streams as input of rules and contexts, from memory or from archived files."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial, reduce
from operator import or_
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from archiver.delta import DataFile, StreamTable
from archiver.ingest import ArchiveWriter, FirstRows
from archiver.read import (
    WIDE_SCAN_ROWS,
    Reader,
    filter_time_range,
    find_first_time,
    read_files,
)
from archiver.time_range import TimeRange, merge_ranges
from archiver.times import Micros, from_micros, micros_column
from moirae.alerts import AlertStream, make_alert_table
from moirae.evaluation.engine import Rows, RowSource
from moirae.evaluation.revision_rows import RevisionRows
from moirae.rules import ALERT_COLUMNS, ALERTS, ALERTS_TIME
from recall.statements import FileRows

_MAX_TABLE_ROWS = 500_000  # rows of archived files after which a table is yielded
# Ranges of event time that a filter of a data frame names; more become one.
_MAX_FILTER_RANGES = 32
_MIN_TIME: Micros = -(1 << 62)  # before every event time
_MAX_TIME: Micros = 1 << 62  # after every event time

_AllowedValues = Mapping[str, Sequence[Any]]  # by column; rows with other values are dropped


class LiveStreamRows:
    """Rows of the archive in the live process, which holds recent ones in memory."""

    def __init__(
        self,
        spark: SparkSession,
        archive: ArchiveWriter,
        revisions: RevisionRows,
        max_read_rows: int | None = None,
    ) -> None:
        """`revisions`: of the streams of recalls and stages, and the alerts.

        `max_read_rows`: rows of files near events that this process reads; None: no limit.
        """
        self._spark = spark
        self._archive = archive
        self.revisions = revisions
        self._max_read_rows = max_read_rows

    @property
    def reads_files(self) -> bool:
        """Whether this process reads archived files, instead of executors."""
        return self._max_read_rows != 0

    @cached_property
    def _first_rows(self) -> FirstRows:
        archive = self._archive
        return FirstRows(archive.catalog, archive.tables, archive.watermark)

    def columns(self, stream: str) -> Mapping[str, str]:
        """The columns of a stream that queries may name, with their types."""
        if self._is_alerts(stream):
            return ALERT_COLUMNS
        return self._archive.tables[stream].schema.query_columns

    def _is_alerts(self, stream: str) -> bool:
        return stream == ALERTS and stream not in self._archive.tables

    def select_columns(self, stream: str, rows: pa.Table | None) -> pa.Table:
        """Rows with the columns that queries may name. None: an empty table."""
        if stream in self.revisions.streams:
            return self.revisions.empty_table(stream)
        schema = self._archive.tables[stream].schema
        if rows is None:
            rows = schema.arrow_schema().empty_table()
        return rows.select(list(schema.query_columns))

    def find_range(self, stream: str, time_range: TimeRange) -> RowSource:
        """Rows with event times in a range: in memory if it holds all of them, else in files."""

        def read() -> Rows:
            if stream in self.revisions.streams:
                return self.revisions.read(stream, time_range)
            recent = self._archive.recent_rows[stream].read(time_range)
            if recent is not None:
                return recent
            table = self._archive.tables[stream]
            files = _own_files(table, time_range)
            if not files:
                return self.select_columns(stream, None)
            return FileRows(table.files, files, time_range)

        count = self.estimate_count(stream, time_range)
        return RowSource(
            count,
            read,
            partial(self._make_frame, stream),
            find_first_time=lambda: self._first_rows.time(stream),
        )

    def find_rows(self, stream: str, rows: pa.Table | None) -> RowSource:
        """Some rows, of which only the columns that queries may name count. None: no rows."""
        table = self.select_columns(stream, rows)
        return RowSource(len(table), lambda: table, partial(self._make_frame, stream))

    def find_files(
        self, stream: str, files: Sequence[DataFile], time_range: TimeRange
    ) -> RowSource:
        """The rows of some files with event times in a range."""
        rows = FileRows(self._archive.tables[stream].files, files, time_range)
        return RowSource(rows.row_count, lambda: rows, partial(self._make_frame, stream))

    def _make_frame(self, stream: str, rows: Rows) -> DataFrame:
        if isinstance(rows, pa.Table):
            return self.to_frame(rows)
        table = self._archive.tables[stream]
        frame = read_files(self._spark, table, rows.files)
        if frame is None:
            return self.to_frame(self.select_columns(stream, None))
        return filter_time_range(frame, table.schema.time, rows.time_range)

    def read_tables(self, stream: str, time_range: TimeRange) -> Iterator[pa.Table]:
        """Rows with event times in a range, without Spark.

        One table if memory holds all of them, else tables of about `_MAX_TABLE_ROWS` rows.
        """
        recent = self._archive.recent_rows[stream].read(time_range)
        if recent is not None:
            yield recent
            return
        table = self._archive.tables[stream]
        time_ranges = [time_range]
        paths: list[str] = []
        row_count = 0
        for file in table.data_files(time_range):
            paths.append(file.path)
            row_count += file.rows
            if row_count >= _MAX_TABLE_ROWS:
                yield _read_files(table, paths, time_ranges, {})
                paths = []
                row_count = 0
        yield _read_files(table, paths, time_ranges, {})

    def estimate_count(self, stream: str, time_range: TimeRange) -> int:
        """An upper bound of the number of rows: the rows of all files that overlap a range."""
        count = self.count_in_memory(stream, time_range)
        if count is not None:
            return count
        return sum(file.rows for file in self._archive.tables[stream].data_files(time_range))

    def count_in_memory(self, stream: str, time_range: TimeRange) -> int | None:
        """About how many rows a range has, if memory holds all of them; else None."""
        if stream in self.revisions.streams:
            return 0  # few: a row for each result about an event
        return self._archive.recent_rows[stream].estimate_rows(time_range)

    def read_near(
        self, stream: str, time_ranges: Sequence[TimeRange], allowed_values: _AllowedValues
    ) -> pa.Table | None:
        """As `rows_near`, in memory; None if this process shall not read that many."""
        merged = _merge_bounded(time_ranges)
        if self._is_alerts(stream):
            return _read_alerts(self.revisions.alerts, merged, allowed_values)
        table = self._archive.tables[stream]
        recent = self._archive.recent_rows[stream].read(merged[0].enclose(merged[-1]))
        if recent is not None:
            return _filter_rows(recent, table.schema.time, merged, allowed_values)
        return _read_near(table, merged, allowed_values, self._max_read_rows)

    def rows_near(
        self, stream: str, time_ranges: Sequence[TimeRange], allowed_values: _AllowedValues
    ) -> DataFrame:
        """Rows with event times in any of some ranges and allowed values.

        They are read in this process if they are few, else from archived files by executors, which
        may return more rows.
        """
        rows = self.read_near(stream, time_ranges, allowed_values)
        if rows is not None:
            return self.to_frame(rows)
        table = self._archive.tables[stream]
        return _read_near_with_spark(self._spark, table, time_ranges, allowed_values)

    def to_frame(self, rows: pa.Table) -> DataFrame:
        """A data frame of an Arrow table."""
        return self._spark.createDataFrame(rows)


class ArchivedStreamRows:
    """Rows of the archive in a process that only reads it."""

    def __init__(
        self,
        spark: SparkSession,
        reader: Reader,
        max_read_rows: int = WIDE_SCAN_ROWS,
        first_times: Mapping[str, Micros] | None = None,
        alerts: AlertStream | None = None,
    ) -> None:
        """`max_read_rows`: rows of files near events that this process reads.

        `alerts`: for queries about events; None: there are no alerts.

        `first_times`: of the first row of streams, where it is stored.
        """
        self._first_times = dict(first_times or {})
        self._alerts = alerts
        self._spark = spark
        self._reader = reader
        self._max_read_rows = max_read_rows

    def columns(self, stream: str) -> Mapping[str, str]:
        """The columns of a stream that queries may name, with their types."""
        if self._is_alerts(stream):
            return ALERT_COLUMNS
        return self._reader.schema(stream).query_columns

    def _is_alerts(self, stream: str) -> bool:
        return stream == ALERTS and stream not in self._reader.streams

    def read_range(self, stream: str, time_range: TimeRange) -> DataFrame:
        """Rows with event times in a range."""
        frame = self._reader.read_dataframe(self._spark, stream, time_range, False, {})
        return filter_time_range(frame, self._reader.schema(stream).time, time_range)

    def find_range(self, stream: str, time_range: TimeRange) -> RowSource:
        """The archived rows of a range; without files, no rows in memory."""
        in_memory = self._reader.rows_in_memory(stream)
        if in_memory is not None:
            return self._select_rows(stream, in_memory, time_range)
        snapshot = self._reader.snapshot(stream, time_range)
        files = [file for file in snapshot.all_files if not file.is_foreign]

        def read() -> Rows:
            if snapshot.table is None or not files:
                return self._empty_table(stream)
            return FileRows(snapshot.table.files, files, time_range)

        def make_frame(rows: Rows) -> DataFrame:
            if isinstance(rows, pa.Table):
                return self._spark.createDataFrame(rows)
            if rows.files is files:
                return self.read_range(stream, time_range)
            assert snapshot.table is not None
            frame = read_files(self._spark, snapshot.table, rows.files)
            assert frame is not None
            return filter_time_range(frame, snapshot.table.schema.time, time_range)

        count = sum(file.rows for file in files)
        return RowSource(count, read, make_frame, partial(self._find_first_time, stream))

    def _select_rows(self, stream: str, rows: pa.Table, time_range: TimeRange) -> RowSource:
        schema = self._reader.schema(stream)
        is_inside = time_range.mask(micros_column(rows, schema.time))
        selected = rows.filter(pa.array(is_inside))
        selected = selected.select(list(schema.query_columns))
        return RowSource(
            len(selected),
            lambda: selected,
            lambda table: self._spark.createDataFrame(table),
            partial(self._find_first_time, stream),
        )

    def _find_first_time(self, stream: str) -> Micros | None:
        table = self._reader.table(stream)
        if stream in self._first_times or table is None:
            return self._first_times.get(stream)
        return find_first_time(table)

    def _empty_table(self, stream: str) -> pa.Table:
        schema = self._reader.schema(stream)
        return schema.arrow_schema().empty_table().select(list(schema.query_columns))

    def read_near(
        self, stream: str, time_ranges: Sequence[TimeRange], allowed_values: _AllowedValues
    ) -> pa.Table | None:
        """See `LiveStreamRows.read_near`."""
        merged = _merge_bounded(time_ranges)
        if self._is_alerts(stream):
            return _read_alerts(self._alerts, merged, allowed_values)
        table = self._reader.table(stream)
        if table is None:
            return self._empty_table(stream)
        return _read_near(table, merged, allowed_values, self._max_read_rows)

    def rows_near(
        self, stream: str, time_ranges: Sequence[TimeRange], allowed_values: _AllowedValues
    ) -> DataFrame:
        """See `LiveStreamRows.rows_near`."""
        rows = self.read_near(stream, time_ranges, allowed_values)
        if rows is not None:
            return self._spark.createDataFrame(rows)
        table = self._reader.table(stream)
        assert table is not None
        return _read_near_with_spark(self._spark, table, time_ranges, allowed_values)


def _read_alerts(
    alerts: AlertStream | None,
    time_ranges: Sequence[TimeRange],
    allowed_values: _AllowedValues,
) -> pa.Table:
    """The changes of state of alerts in some ranges."""
    if alerts is None or not time_ranges:
        return make_alert_table([])
    rows = alerts.read(time_ranges[0].enclose(time_ranges[-1]))
    return _filter_rows(rows, ALERTS_TIME, time_ranges, allowed_values)


def _read_near(
    table: StreamTable,
    time_ranges: Sequence[TimeRange],
    allowed_values: _AllowedValues,
    max_read_rows: int | None,
) -> pa.Table | None:
    """Rows of archived files that overlap some ranges; None if the files have more than a limit."""
    files = _own_files_near(table, time_ranges)
    if max_read_rows is not None and sum(file.rows for file in files) > max_read_rows:
        return None
    return _read_files(table, [file.path for file in files], time_ranges, allowed_values)


def _read_near_with_spark(
    spark: SparkSession,
    table: StreamTable,
    time_ranges: Sequence[TimeRange],
    allowed_values: _AllowedValues,
) -> DataFrame:
    """Rows of archived files that overlap some ranges; Spark reads them."""
    time_ranges = _merge_bounded(time_ranges)
    files = _own_files_near(table, time_ranges)
    if len(time_ranges) > _MAX_FILTER_RANGES:
        time_ranges = [time_ranges[0].enclose(time_ranges[-1])]
    frame = read_files(spark, table, files)
    assert frame is not None
    for column, values in allowed_values.items():
        frame = frame.where(F.col(f"`{column}`").isin(list(values)))
    time = F.col(f"`{table.schema.time}`")
    return frame.where(reduce(or_, [_is_in_range(time, part) for part in time_ranges]))


def _own_files_near(table: StreamTable, time_ranges: Sequence[TimeRange]) -> list[DataFile]:
    """The files of this program that overlap any of some ranges, each once."""
    files: dict[str, DataFile] = {}
    for time_range in time_ranges:
        for file in _own_files(table, time_range):
            files[file.path] = file
    return list(files.values())


def _own_files(table: StreamTable, time_range: TimeRange) -> list[DataFile]:
    """The files that overlap a range, without those of other programs, which have no events."""
    return [file for file in table.data_files(time_range) if not file.is_foreign]


def _read_files(
    table: StreamTable,
    paths: Sequence[str],
    time_ranges: Sequence[TimeRange],
    allowed_values: _AllowedValues,
) -> pa.Table:
    columns = list(table.schema.query_columns)
    tables = [table.schema.arrow_schema().empty_table().select(columns)]
    for path in paths:
        rows = table.read_on_time(path, columns)
        tables.append(_filter_rows(rows, table.schema.time, time_ranges, allowed_values))
    return pa.concat_tables(tables).combine_chunks()


def _is_in_range(time: Column, time_range: TimeRange) -> Column:
    """Whether a time is in a range that has both bounds."""
    start, end = _bounds(time_range)
    return (time >= F.lit(from_micros(start))) & (time < F.lit(from_micros(end)))


def _merge_bounded(time_ranges: Iterable[TimeRange]) -> tuple[TimeRange, ...]:
    """As `merge_ranges`, with both bounds."""
    return merge_ranges(TimeRange(*_bounds(time_range)) for time_range in time_ranges)


def _bounds(time_range: TimeRange) -> tuple[Micros, Micros]:
    """The bounds of a range as numbers."""
    start, end = time_range
    return _MIN_TIME if start is None else start, _MAX_TIME if end is None else end


def _filter_rows(
    rows: pa.Table,
    time_column: str,
    time_ranges: Sequence[TimeRange],
    allowed_values: _AllowedValues,
) -> pa.Table:
    """Rows within disjoint, ascending ranges and with allowed values."""
    for column, values in allowed_values.items():
        value_set = pa.array(values, rows.schema.field(column).type)
        rows = rows.filter(pc.is_in(rows[column], value_set))
    times = micros_column(rows, time_column)
    starts, ends = np.array(list(map(_bounds, time_ranges))).T
    # The last range that starts at or before each row; -1 if there is none.
    indexes = np.searchsorted(starts, times, side="right") - 1
    return rows.filter(pa.array((indexes >= 0) & (times < ends[indexes])))
