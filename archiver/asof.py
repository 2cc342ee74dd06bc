"""The archive as it once was: rows are only ever added, so the first so many appends of a stream are all there was.

Where the files of then have been clustered with later rows, the later ones are left out row by row.
"""

from collections.abc import Iterable, Mapping

import pyarrow.compute as pc

from archiver.errors import ArchiverError
from archiver.place import Root
from archiver.reader import Pinned, Reader
from archiver.schema import APPEND, StreamSchema


class NotTold(ArchiverError):
    """Another program has rewritten rows: when they came is not known any more."""


class AsOf(Reader):
    """`appends`: how many appends of each stream there had been; rows of others are not there."""

    def __init__(self, root: Root, schemas: Iterable[StreamSchema]) -> None:
        super().__init__(root, schemas)
        self.appends: Mapping[str, int] = {}

    def pin(self, stream: str, low: int | None, high: int | None) -> Pinned:
        """See `Reader.pin`. Raises `NotTold`."""
        with self._lock:
            table = self._table(stream)
            if table is None:
                return Pinned()
            until, rows, whole = self.appends.get(stream, 0), [], []
            columns = [*self.schema(stream).columns, "_late"]
            for file in table.held(low, high):
                numbers = table.read_file(file.path, [APPEND])[APPEND]
                if numbers.null_count:
                    raise NotTold(f"another program has written {table.place}/{file.path}: when its rows came is lost")
                then = pc.less_equal(numbers, until)
                if pc.all(then).as_py():
                    whole.append(file)
                elif pc.any(then).as_py():
                    rows.append(table.read_file(file.path, columns).filter(then))
            return Pinned(rows, whole, whole, until, table)
