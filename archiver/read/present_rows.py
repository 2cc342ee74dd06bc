"""The rows of the present chunks in the memory of a process that only reads.

Present chunks consist of many small files, which would otherwise be opened by each query.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from operator import attrgetter

import pyarrow as pa

from archiver.delta import DataFile, StreamTable
from archiver.read.row_batch import RowBatch
from archiver.time_range import TimeRange
from archiver.times import Micros, micros_column

_FILES_PER_READ = 64
# Number of batches of similar size that are merged into one: there are few batches to search, and
# each row is copied a few times only.
_BATCHES_TO_MERGE = 4
# Largest share of the memory budget that a merged batch may take.
_MAX_BATCH_SHARE = 1 / 8


@dataclass(frozen=True, eq=False)
class _PresentBatch(RowBatch):
    """All rows of some files of a stream, with the declared columns and `_late`."""

    stream: str
    paths: frozenset[str]


class PresentRows:
    """Files of the present chunks in Arrow memory.

    `budget`: bytes. If the files exceed it, those with the oldest event times are left on disk.
    Files never change, so a query returns the same rows whether they come from memory or disk.
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._batches: list[_PresentBatch] = []
        # Files whose newest event time is not after this one are not loaded; None: all are.
        self._evicted_until: Micros | None = None

    @property
    def bytes(self) -> int:
        """Size of all rows in memory."""
        return sum(map(attrgetter("bytes"), self._batches))

    def refresh(self, tables: Sequence[StreamTable], chunks: Collection[int]) -> None:
        """Load new files of the chunks, and drop files that no longer belong to them."""
        files_by_stream = {table.schema.name: _chunk_files(table, chunks) for table in tables}
        batches = []
        for batch in self._batches:
            if batch.paths <= files_by_stream.get(batch.stream, {}).keys():
                batches.append(batch)
        self._batches = batches
        if not batches:
            self._evicted_until = None
        for table in tables:
            self._load(table, files_by_stream[table.schema.name])

    def _load(self, table: StreamTable, files_by_path: dict[str, DataFile]) -> None:
        """Load the files that are not in memory, in the order of their newest event times."""
        stream = table.schema.name
        loaded_paths = _paths(self._batches_of(stream))
        new_files = []
        for file in sorted(files_by_path.values(), key=attrgetter("newest")):
            is_evicted = self._evicted_until is not None and file.newest <= self._evicted_until
            if file.path not in loaded_paths and not is_evicted:
                new_files.append(file)
        for start in range(0, len(new_files), _FILES_PER_READ):
            files = new_files[start : start + _FILES_PER_READ]
            self._batches.append(_read_batch(table, files))
            self._merge(stream)
            self._evict()

    def select(
        self, table: StreamTable, time_range: TimeRange, files: Sequence[DataFile]
    ) -> tuple[list[pa.Table], Sequence[DataFile]]:
        """The rows in memory and the files on disk that may have event times in a range.

        `files`: all that may have some. Both belong to the version that `table` has loaded, and no
        row is in both. The rows have the columns that queries may name and `_late`; rows of other
        event times may be among them.
        """
        batches = []
        for batch in self._batches_of(table.schema.name):
            if all(map(table.contains, batch.paths)):
                batches.append(batch)
        paths_in_memory = _paths(batches)
        if paths_in_memory:
            files = [file for file in files if file.path not in paths_in_memory]
        return [batch.rows for batch in batches if batch.overlaps(time_range)], files

    def _batches_of(self, stream: str) -> list[_PresentBatch]:
        return [batch for batch in self._batches if batch.stream == stream]

    def _merge(self, stream: str) -> None:
        """Merge the last batches of a stream as long as they are of similar size."""
        batches = self._batches_of(stream)
        while len(batches) >= _BATCHES_TO_MERGE:
            last = batches[-_BATCHES_TO_MERGE:]
            is_first_much_larger = last[0].bytes > 2 * _BATCHES_TO_MERGE * last[-1].bytes
            merged_bytes = sum(map(attrgetter("bytes"), last))
            if is_first_much_larger or merged_bytes > self._budget * _MAX_BATCH_SHARE:
                break
            self._batches = [batch for batch in self._batches if batch not in last]
            batches[-_BATCHES_TO_MERGE:] = [_merge_batches(last)]
            self._batches.append(batches[-1])

    def _evict(self) -> None:
        """Drop the batches with the oldest event times until the rest fits into the budget."""
        while self._batches and self.bytes > self._budget:
            oldest = min(self._batches, key=attrgetter("newest"))
            self._batches.remove(oldest)
            evicted_until = oldest.newest
            if self._evicted_until is not None:
                evicted_until = max(evicted_until, self._evicted_until)
            self._evicted_until = evicted_until


def _chunk_files(table: StreamTable, chunks: Collection[int]) -> dict[str, DataFile]:
    """The files of the chunks by path. Files of other programs stay on disk: they may be odd."""
    files_by_path: dict[str, DataFile] = {}
    for chunk in chunks:
        for file in table.accounted_files(chunk):
            files_by_path[file.path] = file
    return files_by_path


def _paths(batches: Sequence[_PresentBatch]) -> frozenset[str]:
    return frozenset().union(*map(attrgetter("paths"), batches))


def _merge_batches(batches: Sequence[_PresentBatch]) -> _PresentBatch:
    """The rows of batches of one stream as one batch."""
    return _PresentBatch(
        rows=pa.concat_tables(list(map(attrgetter("rows"), batches))).combine_chunks(),
        oldest=min(map(attrgetter("oldest"), batches)),
        newest=max(map(attrgetter("newest"), batches)),
        stream=batches[0].stream,
        paths=_paths(batches),
    )


def _read_batch(table: StreamTable, files: Sequence[DataFile]) -> _PresentBatch:
    columns = [*table.schema.query_columns, "_late"]
    table.fetch(files)
    parts = [table.read_file(file.path, columns) for file in files]
    rows = pa.concat_tables(parts).combine_chunks()
    ts = micros_column(rows, table.schema.time)
    return _PresentBatch(
        rows=rows,
        oldest=int(ts.min()),
        newest=int(ts.max()),
        stream=table.schema.name,
        paths=frozenset(map(attrgetter("path"), files)),
    )
