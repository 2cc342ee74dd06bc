"""Rewrites files of closed chunks that are not compact: of earlier versions, or of large appends.

What is left to do follows from the names of files, so that a run continues where another ended. A
chunk is one commit for each stream: a process that is killed leaves the old files in place.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from archiver.delta import (
    NOTHING_SETTLED,
    RewriteFunction,
    SettledPlaces,
    StreamTable,
    TableFiles,
)
from archiver.errors import CommitConflict

LoadPlaces = Callable[[], Mapping[str, SettledPlaces]]
"""Which rows no source will be read again for, by stream."""


@dataclass(frozen=True)
class CompactionStep:
    """A chunk of a stream with files that are not compact. `bytes`: of these files."""

    stream: str
    chunk: int
    bytes: int


class Compaction:
    """One run over tables. `tables`: by stream."""

    def __init__(
        self,
        tables: Iterable[StreamTable],
        load_places: LoadPlaces,
        rewrite: RewriteFunction = TableFiles.write_compact,
    ) -> None:
        self._tables = {table.schema.name: table for table in tables}
        self._load_places = load_places
        self._rewrite = rewrite

    def plan(self, closed_chunks: Collection[int]) -> list[CompactionStep]:
        """What is left to do, the newest chunks first."""
        steps: list[CompactionStep] = []
        settled_places = self._load_places()
        for name, table in self._tables.items():
            table.refresh()
            stream_places = settled_places.get(name, NOTHING_SETTLED)
            steps += _plan_table(table, closed_chunks, stream_places)
        return sorted(steps, key=lambda step: (-step.chunk, step.stream))

    def run(self, step: CompactionStep) -> int:
        """Rewrite the files of a chunk. Returns how many bytes it takes less.

        Nothing is done if another process is faster. Raises `OSError` and `ArchiverError`.
        """
        table = self._tables[step.stream]
        before = _count_bytes(table, step.chunk)
        # Asked before the table is read: rows that come later are not settled.
        settled_places = self._load_places().get(step.stream, NOTHING_SETTLED)
        try:
            table.cluster(step.chunk, self._rewrite, settled_places)
        except CommitConflict:
            table.refresh()
        return before - _count_bytes(table, step.chunk)


def _plan_table(
    table: StreamTable, closed_chunks: Collection[int], settled_places: SettledPlaces
) -> Iterator[CompactionStep]:
    if table.is_rewriting:
        return
    for chunk in table.files_by_chunk():
        if chunk in closed_chunks:
            size = sum(_outdated_bytes(table, chunk, settled_places))
            if size:
                yield CompactionStep(table.schema.name, chunk, size)


def _outdated_bytes(table: StreamTable, chunk: int, settled_places: SettledPlaces) -> Sequence[int]:
    files = table.accounted_files(chunk)
    return [file.bytes for file in files if not table.files.is_small(file.path, settled_places)]


def _count_bytes(table: StreamTable, chunk: int) -> int:
    return sum(file.bytes for file in table.accounted_files(chunk))
