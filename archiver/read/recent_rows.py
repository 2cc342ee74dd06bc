"""The newest on-time rows of a stream in memory: what has just been archived need not be read back from files."""

from collections import deque
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from archiver.delta import StreamSchema
from archiver.times import from_micros, micros_column

_MICROS = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class _RecentBatch:
    rows: pa.Table
    oldest: int
    newest: int


class RecentRows:
    """Rows archived by this process, as long as they fit in `budget` bytes of Arrow memory and are still asked for.

    Complete from `since` (microseconds of event time) on: what is older lies in files only.
    """

    def __init__(self, schema: StreamSchema, newest_archived: int | None, budget: int) -> None:
        """`archived_to`: the newest event time that was in the table before; None for an empty table."""
        self._time = schema.time
        self._columns = list(schema.columns)
        self._empty = schema.arrow_schema().empty_table().select(self._columns)
        self._budget = budget
        self._batches: deque[_RecentBatch] = deque()
        self.complete_from = None if newest_archived is None else newest_archived + 1

    def add(self, rows: pa.Table) -> None:
        """On-time rows that have just been committed."""
        if len(rows):
            ts = micros_column(rows, self._time)
            kept = rows.select(self._columns).combine_chunks()
            self._batches.append(_RecentBatch(kept, int(ts.min()), int(ts.max())))
            while (
                len(self._batches) > 1 and sum(p.rows.nbytes for p in self._batches) > self._budget
            ):
                self._drop(0)

    def drop_before(self, event_time: int) -> None:
        """Nobody will ask for rows before this event time any more."""
        for index in reversed(
            [i for i, piece in enumerate(self._batches) if piece.newest < event_time]
        ):
            self._drop(index)

    def _drop(self, index: int) -> None:
        end = self._batches[index].newest + 1
        self.complete_from = end if self.complete_from is None else max(self.complete_from, end)
        del self._batches[index]

    def read(self, low: int | None, high: int | None) -> pa.Table | None:
        """Rows with event times in [low, high), or None where memory does not hold all of them."""
        pieces = self._overlapping(low, high)
        if pieces is None:
            return None
        tables = [self._filter(piece, low, high) for piece in pieces]
        return pa.concat_tables(tables).combine_chunks() if tables else self._empty

    def estimate_rows(self, low: int | None, high: int | None) -> int | None:
        """About how many these are: the rows of all batches that hold some of them."""
        pieces = self._overlapping(low, high)
        return None if pieces is None else sum(len(piece.rows) for piece in pieces)

    def _overlapping(self, low: int | None, high: int | None) -> list[_RecentBatch] | None:
        if self.complete_from is not None and (low is None or low < self.complete_from):
            return None
        return [
            piece
            for piece in self._batches
            if (low is None or piece.newest >= low) and (high is None or piece.oldest < high)
        ]

    def _filter(self, piece: _RecentBatch, low: int | None, high: int | None) -> pa.Table:
        rows = piece.rows
        if low is not None and piece.oldest < low:
            rows = rows.filter(pc.greater_equal(rows[self._time], _timestamp_scalar(low)))
        if high is not None and piece.newest >= high:
            rows = rows.filter(pc.less(rows[self._time], _timestamp_scalar(high)))
        return rows


def _timestamp_scalar(micros: int) -> pa.Scalar:
    return pa.scalar(from_micros(micros), _MICROS)
