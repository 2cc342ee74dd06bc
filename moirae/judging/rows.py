"""Rows of streams as Spark sees them: what has just come, what is in memory, what lies in files."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from archiver.admission import column
from archiver.ingest import Archive
from archiver.reader import Reader, read, within
from archiver.table import StreamTable

# Rows that are read from files at a time.
_PIECE = 500_000
# Before all time, in microseconds.
_NEVER = -(1 << 62)


class Rows:
    """On-time rows of the archive, for one Spark session."""

    def __init__(self, spark: SparkSession, archive: Archive) -> None:
        self._spark = spark
        self._archive = archive

    def columns(self, stream: str) -> Mapping[str, str]:
        """The declared columns of a stream, with their types."""
        return self._archive.tables[stream].schema.columns

    def new(self, stream: str, fresh: pa.Table | None) -> pa.Table:
        """Rows at hand, or none."""
        schema = self._archive.tables[stream].schema
        columns = list(schema.columns)
        return fresh.select(columns) if fresh is not None else schema.arrow().empty_table().select(columns)

    def archived(self, stream: str, low: int | None, high: int | None) -> pa.Table | DataFrame:
        """Rows with event times in [low, high), microseconds: where memory holds them all a table, else a frame."""
        recent = self._archive.recent[stream].slice(low, high)
        if recent is not None:
            return recent
        table = self._archive.tables[stream]
        found = read(self._spark, table, low, high, False, {})
        return self.new(stream, None) if found is None else within(found, table.schema.time, low, high)

    def pieces(self, stream: str, low: int | None, high: int) -> Iterator[pa.Table]:
        """The same rows, read here: at once where memory holds them all, else about so many at a time."""
        recent = self._archive.recent[stream].slice(low, high)
        if recent is not None:
            yield recent
            return
        table = self._archive.tables[stream]
        files, rows = [], 0
        for file in table.held(low, high):
            files.append(file.path)
            rows += file.rows
            if rows >= _PIECE:
                yield _from_files(table, files, [(_NEVER if low is None else low, high)], {})
                files, rows = [], 0
        yield _from_files(table, files, [(_NEVER if low is None else low, high)], {})

    def count(self, stream: str, low: int | None, high: int | None) -> int:
        """About how many rows `archived` gives: those of all files that hold some of them."""
        at_hand = self.at_hand(stream, low, high)
        return sum(f.rows for f in self._archive.tables[stream].held(low, high)) if at_hand is None else at_hand

    def at_hand(self, stream: str, low: int | None, high: int | None) -> int | None:
        """The same, where memory holds them all; else None."""
        return self._archive.recent[stream].count(low, high)

    def around(self, stream: str, spans: Sequence[tuple[int, int]], only: Mapping[str, Sequence[Any]]) -> DataFrame:
        """Rows with event times in any of some spans [low, high), microseconds, read here: they are few."""
        merged = _merged(spans)
        recent = self._archive.recent[stream].slice(merged[0][0], merged[-1][1])
        table = self._archive.tables[stream]
        if recent is not None:
            return self.frame(_kept(recent, table.schema.time, merged, only))
        return self.frame(_from_files(table, _paths(table, merged), merged, only))

    def frame(self, rows: pa.Table) -> DataFrame:
        """An Arrow table."""
        return self._spark.createDataFrame(rows)


class OldRows:
    """On-time rows of the archive for a process that only reads; see `Rows`."""

    def __init__(self, spark: SparkSession, reader: Reader) -> None:
        self._spark = spark
        self._reader = reader

    def columns(self, stream: str) -> Mapping[str, str]:
        """The declared columns of a stream, with their types."""
        return self._reader.schema(stream).columns

    def archived(self, stream: str, low: int | None, high: int | None) -> DataFrame:
        """Rows with event times in [low, high), microseconds."""
        rows = self._reader.rows(self._spark, stream, low, high, False, {})
        return within(rows, self._reader.schema(stream).time, low, high)

    def around(self, stream: str, spans: Sequence[tuple[int, int]], only: Mapping[str, Sequence[Any]]) -> DataFrame:
        """Rows with event times in any of some spans [low, high), microseconds, read here: they are few."""
        table = self._reader.table(stream)
        if table is None:
            return self._spark.createDataFrame([], self._reader.schema(stream).ddl())
        merged = _merged(spans)
        return self._spark.createDataFrame(_from_files(table, _paths(table, merged), merged, only))


def _paths(table: StreamTable, spans: Sequence[tuple[int, int]]) -> list[str]:
    return list(dict.fromkeys(file.path for low, high in spans for file in table.held(low, high)))


def _from_files(
    table: StreamTable, paths: Sequence[str], spans: Sequence[tuple[int, int]], only: Mapping[str, Sequence[Any]]
) -> pa.Table:
    columns = list(table.schema.columns)
    parts = [table.schema.arrow().empty_table().select(columns)]
    for path in paths:
        rows = table.on_time(path, columns)
        parts.append(_kept(rows, table.schema.time, spans, only))
    return pa.concat_tables(parts).combine_chunks()


def _merged(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans that touch as one, ascending."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(spans):
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged


def _kept(rows: pa.Table, time: str, spans: Sequence[tuple[int, int]], only: Mapping[str, Sequence[Any]]) -> pa.Table:
    for name, wanted in only.items():
        rows = rows.filter(pc.is_in(rows[name], pa.array(wanted, rows.schema.field(name).type)))
    ts = column(rows, time)
    place = np.searchsorted(np.array([low for low, _ in spans]), ts, side="right") - 1
    highs = np.array([high for _, high in spans])
    return rows.filter(pa.array((place >= 0) & (ts < highs[place])))
