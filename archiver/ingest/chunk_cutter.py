"""The chunks of the archive, cut as rows arrive."""

from collections.abc import Iterable

import sql
from archiver.chunks import Chunk, CutPolicy, NewestChunkStats, apply_cuts, plan_cuts
from archiver.delta import StreamTable
from archiver.ingest.classify import Array
from archiver.ingest.ledger import Catalog


class ChunkCutter:
    """Ends the newest chunk when the rows of the tables have filled it."""

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

    @property
    def chunks(self) -> list[Chunk]:
        """All chunks, oldest first."""
        return self._chunks

    def cut(self, ts: Array) -> None:
        """Publish the chunks that are cut by new rows, before the rows are appended."""
        newest = self._chunks[-1]
        if newest.from_ts is not None:
            ts = ts[ts >= newest.from_ts]
        ends = plan_cuts(ts, self._newest_stats, self._policy)
        if not ends:
            return
        cut_chunks = apply_cuts(self._chunks, ends)
        with self._connection.transaction():
            self._catalog.put_chunks(cut_chunks[len(self._chunks) - 1 :])
        self._chunks = cut_chunks
        self._newest_stats = NewestChunkStats()

    def count(self, ts: Array) -> None:
        """Count rows that were appended to the newest chunk."""
        if len(ts):
            self._newest_stats = self._newest_stats.add(len(ts), int(ts.min()), int(ts.max()))

    def reload(self) -> None:
        """Read the chunks again, after their states have changed or some were deleted."""
        self._chunks = self._catalog.chunks()


def _count_archived(tables: Iterable[StreamTable], chunk: Chunk) -> NewestChunkStats:
    """The rows that the tables have of a chunk, without those of other programs."""
    stats = NewestChunkStats()
    for table in tables:
        for file in table.accounted_files(chunk.id):
            stats = stats.add(file.rows, file.oldest, file.newest)
    return stats
