"""One row in many of each stream, over all batches."""

import pyarrow as pa

from moirae.evaluation.engine import RowSource
from recall.statements import FilePart


class RowSampler:
    """Selects one row of `interval` rows."""

    def __init__(self, interval: int) -> None:
        self._interval = interval
        self._rows: dict[str, int] = {}  # that were seen, by stream

    def select(self, stream: str, source: RowSource) -> RowSource:
        """The selected rows, in memory. Files are read one after the other."""
        tables: list[pa.Table] = []
        files = source.files
        if files is None:
            assert source.table is not None
            tables.append(self._select_rows(stream, source.table))
        else:
            for file in files.files:
                part = FilePart([file], files.time_range)
                tables.append(self._select_rows(stream, files.read(part)))
        return source.reduce(pa.concat_tables(tables))

    def _select_rows(self, stream: str, table: pa.Table) -> pa.Table:
        row_count = self._rows.get(stream, 0)
        first = -row_count % self._interval
        self._rows[stream] = row_count + len(table)
        return table.take(pa.array(range(first, len(table), self._interval), pa.int64()))
