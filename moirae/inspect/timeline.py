"""Values of streams around an event, for charts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from archiver.delta import StreamSchema, StreamTable
from archiver.read import read_stream_rows
from archiver.storage import StorageRoot
from archiver.time_range import TimeRange
from archiver.times import Micros, from_micros, micros_column, to_micros

_NUMERIC_TYPES = ("int", "bigint", "float", "double")


@dataclass(frozen=True)
class Series:
    """A numeric column in intervals of equal length; intervals without values are left out.

    `times`: the middle of each interval. `rows`: how many values there are in all.
    """

    stream: str
    column: str
    times: Sequence[datetime]
    lowest: Sequence[float]
    mean: Sequence[float]
    highest: Sequence[float]
    rows: int


@dataclass(frozen=True)
class MissingSeries:
    """A stream without values in the range, and why."""

    stream: str
    reason: str


@dataclass(frozen=True)
class Timeline:
    """Values of the streams that have the key of an event, around its time."""

    ts: datetime
    start: datetime
    end: datetime
    series: Sequence[Series]
    missing: Sequence[MissingSeries]


def load_timeline(
    storage: StorageRoot,
    schemas: Iterable[StreamSchema],
    ts: datetime,
    key: Mapping[str, Any],
    *,
    before: timedelta,
    after: timedelta,
    intervals: int,
) -> Timeline:
    """Read the values around a time of the streams that have all columns of a key."""
    start, end = ts - before, ts + after
    time_range = TimeRange(to_micros(start), to_micros(end))
    series: list[Series] = []
    missing: list[MissingSeries] = []
    for schema in schemas:
        columns = _numeric_columns(schema, key)
        is_related = bool(key) and schema.columns.keys() >= key.keys()
        if not columns or not is_related:
            continue
        if not StreamTable.exists(storage, schema.name):
            missing.append(MissingSeries(schema.name, "nothing is archived yet"))
            continue
        table = StreamTable(storage, schema)
        rows = read_stream_rows(table, key, columns, time_range)
        if isinstance(rows, str):
            missing.append(MissingSeries(schema.name, rows))
            continue
        for column in columns:
            times, values = _values_of(rows, schema.time, column)
            series.append(
                summarize_values(schema.name, column, times, values, time_range, intervals)
            )
    return Timeline(ts, start, end, series, missing)


def summarize_values(
    stream: str,
    column: str,
    times: npt.NDArray[np.int64],
    values: npt.NDArray[np.float64],
    time_range: TimeRange,
    intervals: int,
) -> Series:
    """Lowest, mean and highest value of each interval. `times`: in microseconds, in the range."""
    assert time_range.start is not None and time_range.end is not None
    width = max(1, -(-(time_range.end - time_range.start) // intervals))
    numbers, positions = np.unique((times - time_range.start) // width, return_inverse=True)
    counts = np.bincount(positions, minlength=len(numbers))
    sums = np.bincount(positions, values, minlength=len(numbers))
    lowest = np.full(len(numbers), np.inf)
    highest = np.full(len(numbers), -np.inf)
    np.minimum.at(lowest, positions, values)
    np.maximum.at(highest, positions, values)
    middles: list[Micros] = (time_range.start + numbers * width + width // 2).tolist()
    return Series(
        stream=stream,
        column=column,
        times=list(map(from_micros, middles)),
        lowest=lowest.tolist(),
        mean=(sums / np.maximum(counts, 1)).tolist(),
        highest=highest.tolist(),
        rows=len(values),
    )


def _numeric_columns(schema: StreamSchema, key: Mapping[str, Any]) -> list[str]:
    """Columns to draw: numbers that are not part of the key."""
    names = []
    for name, declared_type in schema.columns.items():
        if declared_type in _NUMERIC_TYPES and name not in key:
            names.append(name)
    return names


def _values_of(
    rows: pa.Table, time: str, column: str
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Times and values of a column, without nulls, NaN and infinite values."""
    times = micros_column(rows, time)
    values = rows[column].cast(pa.float64()).to_numpy(zero_copy_only=False)
    is_number = np.isfinite(values)
    return times[is_number], values[is_number]
