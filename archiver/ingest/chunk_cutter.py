"""The chunks of the archive, cut as rows arrive."""

from collections.abc import Iterable

import sql
from archiver.chunks import Chunk, CutPolicy, NewestChunkStats, apply_cuts, plan_cuts
from archiver.delta import StreamTable
from archiver.ingest.catalog import Catalog
from archiver.ingest.classify import Array


class ChunkCutter:
    """Ends the newest chunk when the rows of the tables have filled it.

    `chunks`: all chunks, oldest first.
    """

    def __init__(
        self,
        connection: sql.Connection,
        catalog: Catalog,
        policy: CutPolicy,
        chunks: list[Chunk],
    ) -> None:
        self._connection = connection
        self._catalog = catalog
        self._policy = policy
        self.chunks = chunks
        self._newest_stats = NewestChunkStats()

    def count_archived(self, tables: Iterable[StreamTable]) -> None:
        """Count the rows that the newest chunk already has."""
        for table in tables:
            files = table.files_by_chunk().get(self.chunks[-1].id)
            if files is not None:
                self._newest_stats = self._newest_stats.add(files.rows, files.oldest, files.newest)

    def cut(self, ts: Array) -> None:
        """Publish the chunks that are cut by new rows, before the rows are appended."""
        newest = self.chunks[-1]
        if newest.from_ts is not None:
            ts = ts[ts >= newest.from_ts]
        ends = plan_cuts(ts, self._newest_stats, self._policy)
        if not ends:
            return
        cut_chunks = apply_cuts(self.chunks, ends)
        with self._connection.transaction():
            self._catalog.put_chunks(cut_chunks[len(self.chunks) - 1 :])
        self.chunks = cut_chunks
        self._newest_stats = NewestChunkStats()

    def count(self, ts: Array) -> None:
        """Count rows that were appended to the newest chunk."""
        if len(ts):
            self._newest_stats = self._newest_stats.add(len(ts), int(ts.min()), int(ts.max()))

    def reload(self) -> None:
        """Read the chunks again, after their states have changed or some were deleted."""
        self.chunks = self._catalog.chunks()
