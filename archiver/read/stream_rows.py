"""Reads rows of a stream around an event, as far as pages can show them."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from archiver.delta import StreamSchema, StreamTable
from archiver.time_range import TimeRange
from archiver.times import Micros, from_micros, micros_column

_MAX_ROWS = 2_000_000  # of the files that are read at once


def read_stream_rows(
    table: StreamTable,
    key: Mapping[str, Any],
    columns: Sequence[str],
    time_range: TimeRange,
    max_rows: int = _MAX_ROWS,
) -> pa.Table | str:
    """The time, the key and some columns of the rows of a key in a range, or why there are none.

    `max_rows`: of the files that hold them.
    """
    files = table.data_files(time_range)
    if not files:
        oldest = [entry.oldest for entry in table.files_by_chunk().values()]
        if oldest and time_range.end is not None and time_range.end <= min(oldest):
            return (
                f"no rows: those of this stream start at {from_micros(min(oldest)):%Y-%m-%d %H:%M}Z"
            )
        return "no rows in this range"
    if sum(file.rows for file in files) > max_rows:
        return f"more than {max_rows:,} rows to read"
    names = list(dict.fromkeys([table.schema.time, *key, *columns]))
    try:
        table.fetch(files)
        tables = [table.read_file(file.path, names) for file in files]
    except FileNotFoundError:
        return "the rows have expired meanwhile"
    rows = pa.concat_tables(
        [_filter_rows(entry, table.schema, key, time_range) for entry in tables]
    )
    return rows if len(rows) else "no rows in this range"


def read_newest_rows(
    table: StreamTable,
    key: Mapping[str, Any],
    columns: Sequence[str],
    ranges: Sequence[TimeRange],
    max_rows: int,
) -> tuple[pa.Table | None, Micros | None]:
    """The time, the key and some columns of the rows of a key in some ranges, and a time: rows before
    it were left out; None: all were read.

    Files are read once each, newest first, up to `max_rows` rows of all keys. No rows: None.
    """
    listed = {file.path: file for part in ranges for file in table.data_files(part)}
    files = sorted(listed.values(), key=lambda file: file.newest, reverse=True)
    counts = accumulate(file.rows for file in files)
    count = sum(1 for rows in counts if rows <= max_rows)
    since = max((file.newest + 1 for file in files[count:]), default=None)
    unbroken = TimeRange(since, None)
    names = list(dict.fromkeys([table.schema.time, *key, *columns]))
    tables: list[pa.Table] = []
    table.fetch(files[:count])
    for file in files[:count]:
        with suppress(FileNotFoundError):  # it has expired meanwhile
            rows = _filter_rows(table.read_file(file.path, names), table.schema, key, unbroken)
            times = micros_column(rows, table.schema.time)
            is_in_range = np.logical_or.reduce([part.mask(times) for part in ranges])
            tables.append(rows.filter(pa.array(is_in_range)))
    all_rows = pa.concat_tables(tables) if tables else None
    return (all_rows if all_rows else None), since


def _filter_rows(
    rows: pa.Table, schema: StreamSchema, key: Mapping[str, Any], time_range: TimeRange
) -> pa.Table:
    for name, value in key.items():
        column = rows[name]
        if value is None:
            rows = rows.filter(pc.is_null(column))
        else:
            rows = rows.filter(pc.equal(column.cast(pa.string()), str(value)))
    return rows.filter(pa.array(time_range.mask(micros_column(rows, schema.time))))
