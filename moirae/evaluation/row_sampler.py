"""One row in many, over all batches of a stream."""

import pyarrow as pa

from moirae.evaluation.engine import RowSource
from recall.statements import FilePart


class RowSampler:
    """Selects one row of `interval` rows."""

    def __init__(self, interval: int) -> None:
        self._interval = interval
        self._rows = 0  # that were seen

    def select(self, source: RowSource) -> RowSource:
        """The selected rows, in memory. Files are read one after the other."""
        tables: list[pa.Table] = []
        files = source.files
        if files is None:
            assert source.table is not None
            tables.append(self._select_rows(source.table))
        else:
            for file in files.files:
                part = FilePart([file], files.time_range)
                tables.append(self._select_rows(files.read(part)))
        return source.reduce(pa.concat_tables(tables))

    def _select_rows(self, table: pa.Table) -> pa.Table:
        first = -self._rows % self._interval
        self._rows += len(table)
        return table.take(pa.array(range(first, len(table), self._interval), pa.int64()))
