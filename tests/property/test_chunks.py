"""Chunks partition all event times without gap or overlap, wherever batches begin and end."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from archiver.chunks.chunk import (
    FIRST_CHUNK,
    Chunk,
    CutPolicy,
    NewestChunkStats,
    apply_cuts,
    locate,
    plan_cuts,
)

NEVER = 10**12


@dataclass
class Cutter:
    """Adds batches of rows as the archive does, and records the chunk of each row when added."""

    policy: CutPolicy
    chunks: list[Chunk] = field(default_factory=lambda: [FIRST_CHUNK])
    rows: list[int] = field(default_factory=list)
    chunk_ids: list[int] = field(default_factory=list)

    def add(self, batch: Sequence[int]) -> list[tuple[NewestChunkStats, list[int]]]:
        """For each chunk cut by the batch: its statistics before, and its rows after the cut."""
        stats, last = self.stats(), self.chunks[-1]
        new_times = np.array([ts for ts in batch if contains(last, ts)], dtype=np.int64)
        self.chunks = apply_cuts(self.chunks, plan_cuts(new_times, stats, self.policy))
        self.rows += batch
        self.chunk_ids += locate(self.chunks, np.array(batch, dtype=np.int64)).tolist()
        cut_chunks = [c for c in self.chunks if c.id >= last.id and c.to_ts is not None]
        return [
            (stats if chunk.id == last.id else NewestChunkStats(), self.rows_of(chunk))
            for chunk in cut_chunks
        ]

    def stats(self) -> NewestChunkStats:
        rows = self.rows_of(self.chunks[-1])
        return NewestChunkStats(len(rows), min(rows, default=None), max(rows, default=None))

    def rows_of(self, chunk: Chunk) -> list[int]:
        return sorted(ts for ts in self.rows if contains(chunk, ts))


def contains(chunk: Chunk, ts: int) -> bool:
    return (chunk.from_ts is None or chunk.from_ts <= ts) and (
        chunk.to_ts is None or ts < chunk.to_ts
    )


def is_full(rows: Sequence[int], policy: CutPolicy) -> bool:
    """Whether a chunk with these rows must be cut by the policy."""
    is_old = bool(rows) and max(rows) - min(rows) >= policy.age
    return len(rows) >= policy.rows or (is_old and len(rows) * 100 >= policy.rows)


times = st.one_of(st.integers(-40, 40), st.integers(-2000, 2000))
batches = st.lists(st.lists(times, max_size=40), min_size=1, max_size=8)
policies = st.builds(
    CutPolicy,
    rows=st.one_of(st.integers(1, 60), st.sampled_from([100, 200, 1000])),
    age=st.one_of(st.integers(1, 500), st.just(NEVER)),
)


def add_batches(
    policy: CutPolicy, batches: Sequence[Sequence[int]]
) -> Iterator[tuple[Cutter, list[list[int]]]]:
    """The cutter after each batch, with the rows of the chunks that the batch has closed."""
    cutter = Cutter(policy)
    for batch in batches:
        yield cutter, [rows for _, rows in cutter.add(batch)]


@given(policies, batches)
def test_chunks_cover_all_time_once(policy: CutPolicy, row_batches: list[list[int]]) -> None:
    for cutter, _ in add_batches(policy, row_batches):
        first, *_, last = [cutter.chunks[0], *cutter.chunks]
        assert first.from_ts is None
        assert last.to_ts is None
        assert [c.id for c in cutter.chunks] == list(range(len(cutter.chunks)))
        for before, after in pairwise(cutter.chunks):
            assert before.to_ts == after.from_ts
            assert before.from_ts is None or before.to_ts is None or before.from_ts < before.to_ts


@given(policies, batches)
def test_row_stays_in_one_chunk(policy: CutPolicy, row_batches: list[list[int]]) -> None:
    for cutter, _ in add_batches(policy, row_batches):
        assert (
            cutter.chunk_ids
            == locate(cutter.chunks, np.array(cutter.rows, dtype=np.int64)).tolist()
        )
        for ts, chunk in zip(cutter.rows, cutter.chunk_ids, strict=True):
            assert [c.id for c in cutter.chunks if contains(c, ts)] == [chunk]


@given(policies, batches)
def test_full_chunk_is_closed(policy: CutPolicy, row_batches: list[list[int]]) -> None:
    for _, closed in add_batches(policy, row_batches):
        assert all(is_full(rows, policy) for rows in closed)


@given(policies, batches)
def test_newest_chunk_is_never_full(policy: CutPolicy, row_batches: list[list[int]]) -> None:
    for cutter, _ in add_batches(policy, row_batches):
        if any(contains(cutter.chunks[-1], ts) for ts in cutter.rows):
            assert not is_full(cutter.rows_of(cutter.chunks[-1]), policy)


@given(policies, batches)
def test_chunk_ends_just_past_the_row_that_filled_it(
    policy: CutPolicy, row_batches: list[list[int]]
) -> None:
    cutter = Cutter(policy)
    for batch in row_batches:
        for stats, rows in cutter.add(batch):
            newest = rows[-1]
            # The chunk may have held its newest row already: then the end is behind that row.
            if stats.newest != newest:
                assert not is_full([ts for ts in rows if ts < newest], policy)
            assert newest + 1 in {c.to_ts for c in cutter.chunks}


@given(st.integers(1, 20), st.integers(0, 400), st.randoms(use_true_random=False))
def test_a_large_batch_is_cut_several_times(size: int, count: int, random: Random) -> None:
    rows = list(range(count))
    random.shuffle(rows)
    cutter = Cutter(CutPolicy(size, NEVER))
    cutter.add(rows)
    assert [len(cutter.rows_of(c)) for c in cutter.chunks] == [size] * (count // size) + [
        count % size
    ]


@given(policies, st.lists(times, max_size=120), st.data())
def test_batch_borders_do_not_affect_the_cuts_of_an_ordered_stream(
    policy: CutPolicy, rows: list[int], data: st.DataObject
) -> None:
    """If rows arrive in time order, the cuts depend on the rows alone."""
    rows = sorted(set(rows))
    borders = sorted(data.draw(st.sets(st.integers(0, len(rows)), max_size=6)))
    parts = [rows[a:b] for a, b in pairwise([0, *borders, len(rows)])]
    at_once, in_parts = Cutter(policy), Cutter(policy)
    at_once.add(rows)
    for part in parts:
        in_parts.add(part)
    assert in_parts.chunks == at_once.chunks
