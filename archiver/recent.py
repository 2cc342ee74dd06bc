"""The newest on-time rows of a stream in memory: what has just been archived need not be read back from files."""

from collections import deque
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from archiver.admission import column
from archiver.schema import StreamSchema
from archiver.times import from_micros

_MICROS = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class _Piece:
    rows: pa.Table
    oldest: int
    newest: int


class RecentRows:
    """Rows archived by this process, as long as they fit in `budget` bytes of Arrow memory and are still asked for.

    Complete from `since` (microseconds of event time) on: what is older lies in files only.
    """

    def __init__(self, schema: StreamSchema, archived_to: int | None, budget: int) -> None:
        """`archived_to`: the newest event time that was in the table before; None for an empty table."""
        self._time = schema.time
        self._columns = list(schema.columns)
        self._empty = schema.arrow().empty_table().select(self._columns)
        self._budget = budget
        self._pieces: deque[_Piece] = deque()
        self.since = None if archived_to is None else archived_to + 1

    def add(self, rows: pa.Table) -> None:
        """On-time rows that have just been committed."""
        if len(rows):
            ts = column(rows, self._time)
            kept = rows.select(self._columns).combine_chunks()
            self._pieces.append(_Piece(kept, int(ts.min()), int(ts.max())))
            while len(self._pieces) > 1 and sum(p.rows.nbytes for p in self._pieces) > self._budget:
                self._drop(0)

    def forget(self, before: int) -> None:
        """Nobody will ask for rows before this event time any more."""
        for index in reversed([i for i, piece in enumerate(self._pieces) if piece.newest < before]):
            self._drop(index)

    def _drop(self, index: int) -> None:
        end = self._pieces[index].newest + 1
        self.since = end if self.since is None else max(self.since, end)
        del self._pieces[index]

    def slice(self, low: int | None, high: int | None) -> pa.Table | None:
        """Rows with event times in [low, high), or None where memory does not hold all of them."""
        pieces = self._within(low, high)
        if pieces is None:
            return None
        tables = [self._cut(piece, low, high) for piece in pieces]
        return pa.concat_tables(tables).combine_chunks() if tables else self._empty

    def count(self, low: int | None, high: int | None) -> int | None:
        """About how many these are: the rows of all batches that hold some of them."""
        pieces = self._within(low, high)
        return None if pieces is None else sum(len(piece.rows) for piece in pieces)

    def _within(self, low: int | None, high: int | None) -> list[_Piece] | None:
        if self.since is not None and (low is None or low < self.since):
            return None
        return [
            piece
            for piece in self._pieces
            if (low is None or piece.newest >= low) and (high is None or piece.oldest < high)
        ]

    def _cut(self, piece: _Piece, low: int | None, high: int | None) -> pa.Table:
        rows = piece.rows
        if low is not None and piece.oldest < low:
            rows = rows.filter(pc.greater_equal(rows[self._time], _scalar(low)))
        if high is not None and piece.newest >= high:
            rows = rows.filter(pc.less(rows[self._time], _scalar(high)))
        return rows


def _scalar(micros: int) -> pa.Scalar:
    return pa.scalar(from_micros(micros), _MICROS)
