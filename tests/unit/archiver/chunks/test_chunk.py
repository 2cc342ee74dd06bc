"""Cutting and locating chunks."""

import numpy as np

from archiver.chunks.chunk import (
    FIRST_CHUNK,
    Chunk,
    CutPolicy,
    NewestChunkStats,
    apply_cuts,
    locate,
    plan_cuts,
)

AGE = 1_000_000


def times(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def test_chunk_ends_one_microsecond_after_the_row_that_fills_it() -> None:
    assert plan_cuts(times(30, 10, 20), NewestChunkStats(), CutPolicy(2, AGE)) == [21]


def test_rows_already_in_the_chunk_count_towards_the_cut() -> None:
    stats = NewestChunkStats(rows=1, oldest=5, newest=50)
    assert plan_cuts(times(10), stats, CutPolicy(2, AGE)) == [51]
    assert plan_cuts(times(10), stats, CutPolicy(3, AGE)) == []


def test_chunk_with_few_rows_is_not_cut_by_age() -> None:
    policy = CutPolicy(rows=300, age=AGE)
    assert plan_cuts(times(0, AGE), NewestChunkStats(), policy) == []
    assert plan_cuts(times(0, 1, AGE), NewestChunkStats(), policy) == [AGE + 1]


def test_cuts_end_the_newest_chunk_and_keep_its_state() -> None:
    chunks = apply_cuts([FIRST_CHUNK], [10, 20])
    assert chunks == [Chunk(0, None, 10), Chunk(1, 10, 20), Chunk(2, 20, None)]
    assert locate(chunks, times(9, 10, 19, 20)).tolist() == [0, 1, 1, 2]


def test_stats_of_a_chunk_widen_with_added_rows() -> None:
    stats = NewestChunkStats().add(2, 10, 20)
    assert stats == NewestChunkStats(2, 10, 20)
    assert stats.add(1, 5, 15) == NewestChunkStats(3, 5, 20)
