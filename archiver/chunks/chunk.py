"""Chunks, the intervals of event time that partition the archive, and where to cut them. No I/O."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from archiver.time_range import TimeRange
from archiver.times import Micros, MicrosArray

ChunkState = Literal["present", "recent", "old", "expired"]

# Share of `CutPolicy.rows` that a chunk must hold before it is cut by age: else streams with few
# rows would create many tiny chunks.
_MIN_FILL_TO_CUT_BY_AGE = 1 / 100


@dataclass(frozen=True)
class Chunk:
    """An interval [from_ts, to_ts) of event time, of all streams and views.

    `from_ts` None: from the beginning of time. `to_ts` None: this is the newest chunk, which has no
    end yet.
    """

    id: int
    from_ts: Micros | None
    to_ts: Micros | None
    state: ChunkState = "present"

    @property
    def time_range(self) -> TimeRange:
        return TimeRange(self.from_ts, self.to_ts)


@dataclass(frozen=True)
class CutPolicy:
    """The newest chunk ends at `rows` rows of all streams, or `age` of event time."""

    rows: int
    age: Micros


@dataclass(frozen=True)
class NewestChunkStats:
    """Rows of all streams in the newest chunk, their oldest and newest event time.

    `oldest` and `newest` are None as long as the chunk is empty.
    """

    rows: int = 0
    oldest: Micros | None = None
    newest: Micros | None = None

    def add(self, rows: int, oldest: Micros, newest: Micros) -> "NewestChunkStats":
        """The statistics after adding rows with event times from `oldest` to `newest`."""
        if self.oldest is not None:
            oldest = min(oldest, self.oldest)
        if self.newest is not None:
            newest = max(newest, self.newest)
        return NewestChunkStats(self.rows + rows, oldest, newest)


FIRST_CHUNK = Chunk(0, None, None)


def locate(chunks: Sequence[Chunk], ts: MicrosArray) -> npt.NDArray[np.int32]:
    """The id of the chunk that contains each event time. `chunks`: all chunks, oldest first."""
    ends = np.array([chunk.to_ts for chunk in chunks[:-1]], dtype=np.int64)
    ids = np.array([chunk.id for chunk in chunks], dtype=np.int32)
    chunk_ids: npt.NDArray[np.int32] = ids[np.searchsorted(ends, ts, side="right")]
    return chunk_ids


def plan_cuts(
    new_times: MicrosArray, newest_chunk: NewestChunkStats, policy: CutPolicy
) -> list[Micros]:
    """The ends of the newest chunk and of the chunks after it, once new rows have been added.

    `new_times`: the event times of these rows, in any order. Rows are added in time
    order, so a large batch is cut several times. A chunk that is full ends 1 µs after its newest
    row. Returns the ends in ascending order; an empty list if the newest chunk is not full.
    """
    ts = np.sort(new_times)
    ends: list[Micros] = []
    stats = newest_chunk
    start = 0  # position in `ts` of the first row of the chunk to be cut
    while start < len(ts):
        added = start + _rows_until_full(ts[start:], stats, policy)
        if added > len(ts):
            break
        end = int(ts[added - 1]) + 1
        if stats.newest is not None:
            end = max(end, stats.newest + 1)
        ends.append(end)
        start = int(np.searchsorted(ts, end, side="left"))
        stats = NewestChunkStats()
    return ends


def can_cut(
    rows: int, oldest: int, newest: int, newest_chunk: NewestChunkStats, policy: CutPolicy
) -> bool:
    """Whether `plan_cuts` may return ends for up to so many new rows.

    Their event times are from `oldest` to `newest`.
    """
    stats = newest_chunk.add(rows, oldest, newest)
    if stats.rows >= policy.rows:
        return True
    assert stats.oldest is not None and stats.newest is not None
    has_min_fill = stats.rows >= int(policy.rows * _MIN_FILL_TO_CUT_BY_AGE)
    return has_min_fill and stats.newest - stats.oldest >= policy.age


def _rows_until_full(ts: MicrosArray, stats: NewestChunkStats, policy: CutPolicy) -> int:
    """How many of the sorted event times fill a chunk with these statistics.

    Larger than the number of `ts` if all of them do not fill it.
    """
    by_rows = max(policy.rows - stats.rows, 1)
    min_fill = max(int(policy.rows * _MIN_FILL_TO_CUT_BY_AGE) - stats.rows, 1)
    oldest = int(ts[0])
    if stats.oldest is not None:
        oldest = min(oldest, stats.oldest)
    if stats.newest is not None and stats.newest - oldest >= policy.age:
        by_age = 1
    else:
        by_age = int(np.searchsorted(ts, oldest + policy.age, side="left")) + 1
    return min(by_rows, max(by_age, min_fill))


def apply_cuts(chunks: Sequence[Chunk], ends: Sequence[Micros]) -> list[Chunk]:
    """The chunks after ending the newest one at `ends[0]`, and those added after it at the rest."""
    cut_chunks = list(chunks)
    for end in ends:
        last = cut_chunks.pop()
        cut_chunks.append(Chunk(last.id, last.from_ts, end, last.state))
        cut_chunks.append(Chunk(last.id + 1, end, None))
    return cut_chunks
