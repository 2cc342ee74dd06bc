"""The rows of streams that came after certain appends: what a query that follows has not read yet.

The number of an append identifies its rows, however files are clustered afterwards. So each row is
read once, by history or after it, whatever the clock says.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

import pyarrow as pa
import pyarrow.compute as pc
from cachetools import LRUCache

from archiver.delta import APPEND_COLUMN, DataFile, StreamSchema, StreamTable
from archiver.read.reader import Reader, StreamSnapshot
from archiver.storage import StorageRoot
from archiver.time_range import ALL_TIME, TimeRange
from archiver.times import micros_column

_MAX_FILES = 100_000  # whose newest append is in memory


@dataclass(frozen=True)
class RowsAfter:
    """Rows of a stream by event time and append: of each range, those of later appends.

    `ranges`: ranges of event time that do not overlap, each with the number of an append. Rows
    outside of all ranges are left out.
    """

    ranges: Sequence[tuple[TimeRange, int]]

    @property
    def first_append(self) -> int:
        """Rows of appends up to this number are in no range."""
        return min(map(itemgetter(1), self.ranges), default=0)

    def mask(self, rows: pa.Table, time: str) -> pa.Array:
        """Which rows, with the time column and `_append`, are meant."""
        times = micros_column(rows, time)
        appends = rows[APPEND_COLUMN].fill_null(0).to_numpy()
        is_included = appends < 0
        for time_range, append in self.ranges:
            is_included |= time_range.mask(times) & (appends > append)
        return pa.array(is_included)


class AppendedRows(Reader):
    """Reads the rows that came after certain appends.

    `rows_after`: by stream. Streams that it does not name are read as empty. Rows that another
    program has written have no append number and are left out.
    """

    def __init__(self, root: StorageRoot, schemas: Iterable[StreamSchema]) -> None:
        super().__init__(root, schemas)
        self.rows_after: Mapping[str, RowsAfter] = {}
        # By path: the newest append in a file. Files never change.
        self._newest_appends: LRUCache[str, int] = LRUCache(_MAX_FILES)

    def snapshot(self, stream: str, time_range: TimeRange = ALL_TIME) -> StreamSnapshot:
        """See `Reader.snapshot`. All rows are in memory."""
        with self._lock:
            table = self._table(stream)
            rows_after = self.rows_after.get(stream)
            if table is None:
                return StreamSnapshot()
            files: list[DataFile] = []
            rows: list[pa.Table] = []
            if rows_after is not None:
                files = self._files_after(table, time_range, rows_after.first_append)
                table.fetch(files)
            for file in files:
                assert rows_after is not None
                part = _read_rows(table, file, rows_after)
                if len(part):
                    rows.append(part)
            return StreamSnapshot(
                rows=rows, all_files=files, append_count=table.append_count, table=table
            )

    def _files_after(
        self, table: StreamTable, time_range: TimeRange, append: int
    ) -> list[DataFile]:
        """The files with rows of later appends."""
        files = []
        for file in table.data_files(time_range):
            newest = self._newest_appends.get(file.path)
            if newest is None:
                newest = table.newest_append(file.path)
                self._newest_appends[file.path] = newest
            if newest > append:
                files.append(file)
        return files


def _read_rows(table: StreamTable, file: DataFile, rows_after: RowsAfter) -> pa.Table:
    columns = [*table.schema.query_columns, "_late"]
    rows = table.read_file(file.path, [*columns, APPEND_COLUMN])
    mask = rows_after.mask(rows, table.schema.time)
    if not pc.any(mask).as_py():
        return rows.slice(0, 0).select(columns)
    return rows.filter(mask).select(columns)
