"""Chunks: the intervals of event time that cut the whole archive, and where to cut next. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

ChunkState = Literal["present", "recent", "old", "expired"]
MicrosArray = npt.NDArray[np.int64]

# A chunk may be cut by age only when it holds at least this share of `rows`: quiet streams make no confetti.
_MIN_FILL_TO_CUT_BY_AGE = 1 / 100


@dataclass(frozen=True)
class Chunk:
    """One interval [from_ts, to_ts) of event time, in microseconds, common to all streams and views.

    `from_ts` None: from the beginning of time. `to_ts` None: the end is not fixed yet, this is the newest chunk.
    """

    id: int
    from_ts: int | None
    to_ts: int | None
    state: ChunkState = "present"


@dataclass(frozen=True)
class CutPolicy:
    """When the newest chunk ends: at `rows` rows over all streams, or `age` microseconds of event time."""

    rows: int
    age: int


@dataclass(frozen=True)
class NewestChunkStats:
    """What the newest chunk holds: rows over all streams, and the oldest and newest event time seen in it."""

    rows: int = 0
    oldest: int | None = None
    newest: int | None = None


FIRST_CHUNK = Chunk(0, None, None)


def locate(chunks: Sequence[Chunk], ts: MicrosArray) -> npt.NDArray[np.int32]:
    """The id of the chunk of each time. `chunks` cover all time, in order."""
    ends = np.array([c.to_ts for c in chunks[:-1]], dtype=np.int64)
    ids = np.array([c.id for c in chunks], dtype=np.int32)
    found: npt.NDArray[np.int32] = ids[np.searchsorted(ends, ts, side="right")]
    return found


def plan_cuts(
    new_times: MicrosArray, newest_chunk: NewestChunkStats, policy: CutPolicy
) -> list[int]:
    """Where the newest chunk and its followers end when the `arriving` rows (any order) have been added.

    A chunk that is full ends just past the newest row seen so far; rows from there on belong to the next. Rows of
    one call are taken in time order, so a large batch is cut several times. Returns the ends, ascending.
    """
    ts = np.sort(new_times)
    cuts: list[int] = []
    rows, oldest, newest = newest_chunk.rows, newest_chunk.oldest, newest_chunk.newest
    at = 0
    while at < len(ts):
        first = int(ts[at])
        oldest = first if oldest is None else min(oldest, first)
        by_rows = at + max(policy.rows - rows, 1)
        enough = at + max(int(policy.rows * _MIN_FILL_TO_CUT_BY_AGE) - rows, 1)
        spanned = newest is not None and newest - oldest >= policy.age
        aged = at + 1 if spanned else int(np.searchsorted(ts, oldest + policy.age, side="left")) + 1
        full = min(by_rows, max(aged, enough))
        if full > len(ts):
            break
        end = int(ts[full - 1]) + 1
        if newest is not None:
            end = max(end, newest + 1)
        cuts.append(end)
        at = int(np.searchsorted(ts, end, side="left"))
        rows, oldest, newest = 0, None, None
    return cuts


def apply_cuts(chunks: Sequence[Chunk], ends: Sequence[int]) -> list[Chunk]:
    """The chunks after fixing the newest one's end at `ends[0]` and adding the followers that the rest asks for."""
    result = list(chunks)
    for end in ends:
        last = result.pop()
        result += [Chunk(last.id, last.from_ts, end, last.state), Chunk(last.id + 1, end, None)]
    return result
