"""The most recently archived on-time rows of a stream, in the memory of the process that archived.

They need not be read back from files.
"""

from collections import deque

import pyarrow as pa
import pyarrow.compute as pc

from archiver.delta import StreamSchema
from archiver.read.row_batch import RowBatch
from archiver.time_range import TimeRange
from archiver.times import Micros, from_micros, micros_column

_MICROS = pa.timestamp("us", tz="UTC")


class RecentRows:
    """Rows archived by this process, up to a budget of Arrow memory.

    `complete_from`: all on-time rows of the stream from this event time on are in
    memory; None: all rows of the stream are.
    """

    def __init__(self, schema: StreamSchema, newest_archived: Micros | None, budget: int) -> None:
        """`newest_archived`: the newest event time in the table so far; None for an empty table.

        `budget`: bytes.
        """
        self._time = schema.time
        self._columns = list(schema.query_columns)
        self._empty = schema.arrow_schema().empty_table().select(self._columns)
        self._budget = budget
        self._batches: deque[RowBatch] = deque()
        self.complete_from = None if newest_archived is None else newest_archived + 1

    def add(self, rows: pa.Table) -> None:
        """Add on-time rows that were just committed. The oldest batches over the budget go."""
        if not len(rows):
            return
        ts = micros_column(rows, self._time)
        queried = rows.select(self._columns).combine_chunks()
        self._batches.append(RowBatch(queried, int(ts.min()), int(ts.max())))
        while len(self._batches) > 1 and self.size_bytes > self._budget:
            self._drop(0)

    def skip(self, newest: int) -> None:
        """Rows with event times up to `newest` were archived without passing this memory."""
        end = newest + 1
        if self.complete_from is not None:
            end = max(self.complete_from, end)
        self.complete_from = end
        self.drop_before(end)

    @property
    def size_bytes(self) -> int:
        """Arrow memory of the rows."""
        return sum(batch.bytes for batch in self._batches)

    def drop_before(self, event_time: Micros) -> None:
        """Drop the batches whose rows are all before an event time."""
        for index in reversed(range(len(self._batches))):
            if self._batches[index].newest < event_time:
                self._drop(index)

    def _drop(self, index: int) -> None:
        end = self._batches[index].newest + 1
        if self.complete_from is not None:
            end = max(self.complete_from, end)
        self.complete_from = end
        del self._batches[index]

    def read(self, time_range: TimeRange) -> pa.Table | None:
        """The rows with event times in a range; None unless all of them are in memory."""
        batches = self._overlapping(time_range)
        if batches is None:
            return None
        if not batches:
            return self._empty
        parts = [self._filter(batch, time_range) for batch in batches]
        return pa.concat_tables(parts).combine_chunks()

    def estimate_rows(self, time_range: TimeRange) -> int | None:
        """An upper bound of the rows that `read` returns; None where `read` returns None."""
        batches = self._overlapping(time_range)
        if batches is None:
            return None
        return sum(len(batch.rows) for batch in batches)

    def _overlapping(self, time_range: TimeRange) -> list[RowBatch] | None:
        start = time_range.start
        if self.complete_from is not None and (start is None or start < self.complete_from):
            return None
        return [batch for batch in self._batches if batch.overlaps(time_range)]

    def _filter(self, batch: RowBatch, time_range: TimeRange) -> pa.Table:
        rows = batch.rows
        start, end = time_range
        if start is not None and batch.oldest < start:
            rows = rows.filter(pc.greater_equal(rows[self._time], _timestamp_scalar(start)))
        if end is not None and batch.newest >= end:
            rows = rows.filter(pc.less(rows[self._time], _timestamp_scalar(end)))
        return rows


def _timestamp_scalar(micros: Micros) -> pa.Scalar:
    return pa.scalar(from_micros(micros), _MICROS)
