"""Rows of archived files, which tasks read in parts."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from archiver.delta import DataFile, TableFiles
from archiver.executors import choose_task_count, divide_evenly
from archiver.time_range import ALL_TIME, TimeRange
from archiver.times import micros_column

# Rows of files that one task reads; a task with fewer rows takes less time than its start.
MAX_TASK_ROWS = 200_000
MIN_TASK_ROWS = 25_000
# Rows of files that a task may read at all, because it holds them; what needs more is left to Spark.
MAX_PART_ROWS = 1_000_000


@dataclass(frozen=True)
class FilePart:
    """What one task evaluates: events in a range, from the rows of files in another range."""

    files: Sequence[DataFile]
    input_range: TimeRange
    event_range: TimeRange = ALL_TIME

    @property
    def row_count(self) -> int:
        """An upper bound of the number of rows."""
        return sum(file.rows for file in self.files)


@dataclass(frozen=True)
class FileRows:
    """The rows of data files of a stream with event times in a range.

    `columns`: those to read; None: all that queries may name. `include_late`: also rows that were late, and
    those of other programs.
    """

    table: TableFiles
    files: Sequence[DataFile]
    time_range: TimeRange
    columns: Sequence[str] | None = None
    include_late: bool = False

    @property
    def row_count(self) -> int:
        """An upper bound of the number of rows."""
        return sum(file.rows for file in self.files)

    def read(self, part: FilePart) -> pa.Table:
        """The rows of a part of them."""
        schema = self.table.schema
        columns = list(schema.query_columns if self.columns is None else self.columns)
        read_columns = list(dict.fromkeys([*columns, schema.time]))
        read_file = self.table.read if self.include_late else self.table.read_on_time
        tables = [self.table.arrow_schema.empty_table().select(read_columns)]
        tables += [read_file(file.path, read_columns) for file in part.files]
        rows = pa.concat_tables(tables)
        is_inside = part.input_range.mask(micros_column(rows, schema.time))
        return rows.filter(pa.array(is_inside)).select(columns).combine_chunks()


def divide_files(rows: FileRows, cores: int) -> list[FilePart]:
    """Files by task, in order."""
    if not rows.files:
        return []
    sizes = [file.rows for file in rows.files]
    task_count = choose_task_count(rows.row_count, cores, MIN_TASK_ROWS, MAX_TASK_ROWS)
    groups = divide_evenly(sizes, task_count)
    return [FilePart(rows.files[group], rows.time_range) for group in groups]
