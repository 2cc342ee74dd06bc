"""The chunks of the archive in the process that cuts them."""

from collections.abc import Callable, Iterable
from functools import partial

import sql
from archiver.chunks import (
    Chunk,
    CutPolicy,
    NewestChunkStats,
    apply_cuts,
    can_cut,
    plan_cuts,
)
from archiver.delta import StreamTable
from archiver.ingest.classify import Array, latest
from archiver.ingest.ledger import Catalog
from archiver.times import Micros


class ChunkCutter:
    """All chunks, oldest first, and the rows of the newest one, which it ends when it is full."""

    def __init__(
        self,
        connection: sql.Connection,
        catalog: Catalog,
        policy: CutPolicy,
        tables: Iterable[StreamTable],
        chunks: list[Chunk],
    ) -> None:
        """`chunks`: all chunks, oldest first."""
        self._connection = connection
        self._catalog = catalog
        self._policy = policy
        self._chunks = chunks
        self._newest_stats = _count_archived(tables, chunks[-1])
        self._stream_ends = catalog.stream_ends()

    def expired_before(self, stream: str) -> Micros | None:
        """Rows of a stream before this event time have expired; None: none have."""
        expired = [chunk.to_ts for chunk in self._chunks if chunk.state == "expired"]
        return latest(*expired, self._stream_ends.get(stream))

    @property
    def chunks(self) -> list[Chunk]:
        """All chunks, oldest first."""
        return self._chunks

    def reload(self) -> None:
        """Read the chunks again, after their states have changed or some were deleted."""
        self._chunks = self._catalog.chunks()
        self._stream_ends = self._catalog.stream_ends()

    @property
    def may_fill(self) -> Callable[[int, int, int], bool]:
        """Whether new rows may fill it, by their number, oldest and newest event time.

        If not, `cut` changes nothing. The function can be sent to other processes.
        """
        return partial(can_cut, newest_chunk=self._newest_stats, policy=self._policy)

    def cut(self, ts: Array) -> None:
        """Publish the chunks that are cut by new rows, before the rows are appended.

        `ts`: event times of the new rows, in any order.
        """
        ends = plan_cuts(self._select_newest(ts), self._newest_stats, self._policy)
        if not ends:
            return
        cut_chunks = apply_cuts(self._chunks, ends)
        with self._connection.transaction():
            self._catalog.put_chunks(cut_chunks[len(self._chunks) - 1 :])
        self._chunks = cut_chunks
        self._newest_stats = NewestChunkStats()

    def count(self, ts: Array) -> None:
        """Count new rows, after `cut`. `ts`: their event times, in any order."""
        ts = self._select_newest(ts)
        if len(ts):
            self.count_rows(len(ts), int(ts.min()), int(ts.max()))

    def count_rows(self, rows: int, oldest: int, newest: int) -> None:
        """Count new rows of the newest chunk, with event times from `oldest` to `newest`."""
        self._newest_stats = self._newest_stats.add(rows, oldest, newest)

    def _select_newest(self, ts: Array) -> Array:
        """The event times that belong to the newest chunk."""
        newest = self._chunks[-1]
        if newest.from_ts is None:
            return ts
        return ts[ts >= newest.from_ts]


def _count_archived(tables: Iterable[StreamTable], chunk: Chunk) -> NewestChunkStats:
    """The rows that the tables have of a chunk, without those of other programs."""
    stats = NewestChunkStats()
    for table in tables:
        for file in table.accounted_files(chunk.id):
            stats = stats.add(file.rows, file.oldest, file.newest)
    return stats
