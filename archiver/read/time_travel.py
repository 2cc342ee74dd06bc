"""The archive as it once was: rows are only ever added, so the first so many appends of a stream are all there was.

Where the files of then have been clustered with later rows, the later ones are left out row by row.
"""

from collections.abc import Iterable, Mapping

import pyarrow.compute as pc

from archiver.delta import APPEND_COLUMN, StreamSchema
from archiver.errors import HistoryUnavailable
from archiver.read.reader import Reader, StreamSnapshot
from archiver.storage import StorageRoot


class ReaderAt(Reader):
    """`appends`: how many appends of each stream there had been; rows of others are not there."""

    def __init__(self, root: StorageRoot, schemas: Iterable[StreamSchema]) -> None:
        super().__init__(root, schemas)
        self.append_counts: Mapping[str, int] = {}

    def snapshot(self, stream: str, low: int | None, high: int | None) -> StreamSnapshot:
        """See `Reader.pin`. Raises `NotTold`."""
        with self._lock:
            table = self._table(stream)
            if table is None:
                return StreamSnapshot()
            until, rows, whole = self.append_counts.get(stream, 0), [], []
            columns = [*self.schema(stream).columns, "_late"]
            for file in table.data_files(low, high):
                numbers = table.read_file(file.path, [APPEND_COLUMN])[APPEND_COLUMN]
                if numbers.null_count:
                    raise HistoryUnavailable(
                        f"another program has written {table.storage}/{file.path}: when its rows came is lost"
                    )
                then = pc.less_equal(numbers, until)
                if pc.all(then).as_py():
                    whole.append(file)
                elif pc.any(then).as_py():
                    rows.append(table.read_file(file.path, columns).filter(then))
            return StreamSnapshot(rows, whole, whole, until, table)
