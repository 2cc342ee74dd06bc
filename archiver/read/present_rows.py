"""The present chunks' rows in memory, for a process that only reads: many small files need not be opened."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from archiver.delta import DataFile, StreamTable
from archiver.times import micros_column

# Files read at once, and pieces of about one size before they become one: look-ups stay few, and each row is copied
# a few times only. No piece is larger than this share of the budget.
_FILES_PER_READ, _BATCHES_TO_MERGE, _MAX_BATCH_SHARE = 64, 4, 1 / 8


@dataclass(frozen=True, eq=False)
class _PresentBatch:
    """Rows of some files, whole; event times in microseconds."""

    stream: str
    paths: frozenset[str]
    rows: pa.Table
    oldest: int
    newest: int

    @property
    def bytes(self) -> int:
        return int(self.rows.nbytes)


class PresentRows:
    """Files of present chunks, in Arrow memory, at most `budget` bytes; of what does not fit, the newest by event time.

    Files never change, so that a row is the same wherever it is read from: which rows are here decides how fast an
    answer is, never what it is.
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._batches: list[_PresentBatch] = []
        # Files that end before this event time were too much.
        self._evicted_until: int | None = None

    @property
    def bytes(self) -> int:
        """What is held."""
        return sum(piece.bytes for piece in self._batches)

    def refresh(self, tables: Sequence[StreamTable], chunks: Collection[int]) -> None:
        """Read the new files of these chunks; forget what is not theirs any more."""
        wanted = {
            t.schema.name: {f.path: f for c in chunks for f in t.data_files(chunk=c)}
            for t in tables
        }
        self._batches = [
            piece for piece in self._batches if piece.paths <= wanted.get(piece.stream, {}).keys()
        ]
        if not self._batches:
            self._evicted_until = None
        for table in tables:
            name = table.schema.name
            known = {
                path for piece in self._batches if piece.stream == name for path in piece.paths
            }
            new = sorted(
                (f for p, f in wanted[name].items() if p not in known), key=lambda f: f.newest
            )
            for files in _file_groups(
                [f for f in new if self._evicted_until is None or f.newest > self._evicted_until]
            ):
                self._batches.append(_read_batch(table, files))
                self._merge(name)
                self._evict()

    def select(
        self, table: StreamTable, low: int | None, high: int | None
    ) -> tuple[list[pa.Table], list[DataFile]]:
        """The rows of a span [low, high) of event time, in the version that the table object sees: declared columns and
        `_late` of what is here, and the files to read the others from. Other rows may be among them."""
        name = table.schema.name
        mine = [
            piece
            for piece in self._batches
            if piece.stream == name and all(map(table.contains, piece.paths))
        ]
        here = set().union(*(piece.paths for piece in mine))
        files = [file for file in table.data_files(low, high) if file.path not in here]
        rows = [
            p.rows
            for p in mine
            if (low is None or p.newest >= low) and (high is None or p.oldest < high)
        ]
        return rows, files

    def _merge(self, stream: str) -> None:
        mine = [piece for piece in self._batches if piece.stream == stream]
        while len(mine) >= _BATCHES_TO_MERGE:
            last = mine[-_BATCHES_TO_MERGE:]
            total = sum(piece.bytes for piece in last)
            if (
                last[0].bytes > 2 * _BATCHES_TO_MERGE * last[-1].bytes
                or total > self._budget * _MAX_BATCH_SHARE
            ):
                break
            self._batches = [piece for piece in self._batches if piece not in last]
            mine[-_BATCHES_TO_MERGE:] = [
                _PresentBatch(
                    stream,
                    frozenset().union(*(piece.paths for piece in last)),
                    pa.concat_tables([piece.rows for piece in last]).combine_chunks(),
                    min(piece.oldest for piece in last),
                    max(piece.newest for piece in last),
                )
            ]
            self._batches.append(mine[-1])

    def _evict(self) -> None:
        while self._batches and self.bytes > self._budget:
            oldest = min(self._batches, key=lambda piece: piece.newest)
            self._batches.remove(oldest)
            self._evicted_until = max(
                oldest.newest,
                self._evicted_until if self._evicted_until is not None else oldest.newest,
            )


def _file_groups(files: Sequence[DataFile]) -> Iterator[Sequence[DataFile]]:
    for at in range(0, len(files), _FILES_PER_READ):
        yield files[at : at + _FILES_PER_READ]


def _read_batch(table: StreamTable, files: Sequence[DataFile]) -> _PresentBatch:
    names = [*table.schema.columns, "_late"]
    table.fetch(files)
    rows = pa.concat_tables([table.read_file(file.path, names) for file in files]).combine_chunks()
    ts = micros_column(rows, table.schema.time)
    return _PresentBatch(
        table.schema.name, frozenset(f.path for f in files), rows, int(ts.min()), int(ts.max())
    )
