"""On-time rows of archived files, which tasks read in parts."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from archiver.delta import DataFile, TableFiles
from archiver.time_range import ALL_TIME, TimeRange
from archiver.times import micros_column


@dataclass(frozen=True)
class FilePart:
    """What one task evaluates: events in a range, from the rows of files in another range."""

    files: Sequence[DataFile]
    input_range: TimeRange
    event_range: TimeRange = ALL_TIME


@dataclass(frozen=True)
class FileRows:
    """The on-time rows of data files of a stream with event times in a range."""

    table: TableFiles
    files: Sequence[DataFile]
    time_range: TimeRange

    @property
    def row_count(self) -> int:
        """An upper bound of the number of rows."""
        return sum(file.rows for file in self.files)

    def read(self, part: FilePart) -> pa.Table:
        """The rows of a part of them, with the declared columns."""
        columns = list(self.table.schema.columns)
        tables = [self.table.arrow_schema.empty_table().select(columns)]
        tables += [self.table.read_on_time(file.path, columns) for file in part.files]
        rows = pa.concat_tables(tables)
        is_inside = part.input_range.mask(micros_column(rows, self.table.schema.time))
        return rows.filter(pa.array(is_inside)).combine_chunks()
