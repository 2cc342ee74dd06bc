"""The archive as of an earlier append: rows are only added, never changed.

The first appends of a stream hold exactly the rows that the archive held then. Files that were
since clustered with later rows are filtered row by row, by the number of the append of each row.
"""

from collections.abc import Iterable, Mapping

import pyarrow.compute as pc

from archiver.delta import APPEND_COLUMN, StreamSchema
from archiver.errors import HistoryUnavailable
from archiver.read.reader import Reader, StreamSnapshot
from archiver.storage import StorageRoot
from archiver.time_range import ALL_TIME, TimeRange


class ReaderAt(Reader):
    """Reads streams as of an earlier state of the archive.

    `append_counts`: number of appends to each stream at that time. Streams without a count are read
    as empty.
    """

    def __init__(self, root: StorageRoot, schemas: Iterable[StreamSchema]) -> None:
        super().__init__(root, schemas)
        self.append_counts: Mapping[str, int] = {}

    def snapshot(self, stream: str, time_range: TimeRange = ALL_TIME) -> StreamSnapshot:
        """See `Reader.snapshot`. Raises `HistoryUnavailable`."""
        with self._lock:
            table = self._table(stream)
            if table is None:
                return StreamSnapshot()
            append_count = self.append_counts.get(stream, 0)
            columns = [*self.schema(stream).query_columns, "_late"]
            rows = []
            files = []
            for file in table.data_files(time_range):
                appends = table.read_file(file.path, [APPEND_COLUMN])[APPEND_COLUMN]
                if appends.null_count:
                    raise HistoryUnavailable(
                        f"{table.storage}/{file.path}: appended or rewritten by another "
                        "program, so the time at which its rows were archived is unknown"
                    )
                is_included = pc.less_equal(appends, append_count)
                if pc.all(is_included).as_py():
                    files.append(file)
                elif pc.any(is_included).as_py():
                    rows.append(table.read_file(file.path, columns).filter(is_included))
            return StreamSnapshot(
                rows=rows,
                files=files,
                all_files=files,
                append_count=append_count,
                table=table,
                rewritten=table.declaration.changes.rewritten,
            )
