"""A small archive in a folder, for rows that are given: as if they had come in time."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from archiver.delta import ARROW_TYPES, StreamSchema, StreamTable, add_archive_columns, fingerprint
from archiver.read import Reader
from recall.query import sql_names

_CHUNK = 0
_MIN_TIME = datetime(1, 1, 1, tzinfo=UTC)
_MAX_TIME = datetime(9999, 12, 31, tzinfo=UTC)


class ScratchReader(Reader):
    """Reads rows that are given. Those of a stream are written to a folder when files are needed."""

    def __init__(
        self, folder: Path, schemas: Sequence[StreamSchema], rows: Mapping[str, pa.Table]
    ) -> None:
        """`rows`: by stream, with the columns of an archive."""
        super().__init__(folder, schemas)
        self._folder = folder
        self._unwritten = dict(rows)

    def rows_in_memory(self, stream: str) -> pa.Table | None:
        """See `Reader.rows_in_memory`."""
        return self._unwritten.get(stream)

    def _table(self, stream: str) -> StreamTable | None:
        rows = self._unwritten.pop(stream, None)
        if rows is not None and len(rows):
            StreamTable(self._folder, self.schema(stream)).append(rows, 1)
        return super()._table(stream)


def write_archive(
    folder: Path, schemas: Iterable[StreamSchema], rows: Mapping[str, pa.Table]
) -> Reader:
    """A reader of rows by stream, and of empty streams. Files are written when they are needed.

    `rows`: the declared columns and `_extra`. Of rows with one identity the first counts.
    """
    declared = list(schemas)
    archived: dict[str, pa.Table] = {}
    for schema in declared:
        table = rows.get(schema.name)
        if table is not None and len(table):
            archived[schema.name] = archive_rows(schema, table, [len(table)]).table
    return ScratchReader(folder, declared, archived)


@dataclass(frozen=True)
class ScratchRows:
    """Rows of a stream for some archives, as they have them, one archive after the other.

    `counts`: how many rows each has.
    """

    table: pa.Table
    counts: Sequence[int]

    @cached_property
    def _starts(self) -> Sequence[int]:
        return [0, *accumulate(self.counts)]

    def select(self, number: int) -> pa.Table:
        """The rows of an archive."""
        return self.table.slice(self._starts[number], self.counts[number])

    def number_rows(self, columns: Sequence[str], name: str) -> pa.Table:
        """Some columns of all rows, and one with the number of the archive."""
        numbers = np.repeat(np.arange(len(self.counts)), self.counts)
        return self.table.select(list(columns)).append_column(name, pa.array(numbers))


def archive_rows(schema: StreamSchema, table: pa.Table, counts: Sequence[int]) -> ScratchRows:
    """Rows with the columns that archives add. Of rows with one identity the first of each counts."""
    line_numbers = np.concatenate([np.empty(0, np.int64), *map(np.arange, counts)])
    place_keys = [str(number).encode() for number in line_numbers.tolist()]
    ids, hashes = fingerprint(schema, table, place_keys)
    rows = add_archive_columns(
        table,
        ids,
        hashes,
        np.zeros(len(table), bool),
        units=np.ones(len(table), np.int64),
        line_numbers=line_numbers,
        chunk_ids=np.full(len(table), _CHUNK),
    )
    positions: list[int] = []
    distinct_counts: list[int] = []
    start = 0
    for count in counts:
        first_positions: dict[bytes, int] = {}
        for position, identity in enumerate(ids[start : start + count], start):
            first_positions.setdefault(identity, position)
        positions += first_positions.values()
        distinct_counts.append(len(first_positions))
        start += count
    if len(positions) < len(table):
        rows = rows.take(pa.array(positions, pa.int64()))
    return ScratchRows(rows, distinct_counts)


def make_versions(rows: pa.Table, key: Sequence[str], valid_from: str | None) -> pa.Table:
    """All versions of the rows of a relation: each is valid until the next one of its key.

    `valid_from`: the column that says since when; None: at all times.
    """
    starts: Sequence[datetime] = [_MIN_TIME] * len(rows)
    if valid_from is not None:
        starts = rows[valid_from].to_pylist()
    keys = list(zip(*(rows[column].to_pylist() for column in key), strict=True))
    ends: list[datetime] = [_MAX_TIME] * len(rows)
    next_starts: dict[tuple[Any, ...], datetime] = {}
    for number in sorted(range(len(rows)), key=starts.__getitem__, reverse=True):
        ends[number] = next_starts.get(keys[number], _MAX_TIME)
        next_starts[keys[number]] = starts[number]
    times = ARROW_TYPES["timestamp"]
    versions = rows.append_column(sql_names.VALID_FROM, pa.array(starts, times))
    return versions.append_column(sql_names.VALID_TO, pa.array(ends, times))
