"""Reading the archive: snapshots of streams, rows in memory, and earlier states of the archive."""

from archiver.read.appended_rows import AppendedRows, RowsAfter
from archiver.read.first_time import find_first_time
from archiver.read.reader import (
    WIDE_SCAN_ROWS,
    Reader,
    SnapshotReader,
    StreamSnapshot,
    filter_time_range,
    read_files,
)
from archiver.read.recent_rows import RecentRows
from archiver.read.stream_rows import read_newest_rows, read_stream_rows
from archiver.read.time_travel import ReaderAt

__all__ = [
    "AppendedRows",
    "Reader",
    "ReaderAt",
    "RecentRows",
    "RowsAfter",
    "SnapshotReader",
    "StreamSnapshot",
    "WIDE_SCAN_ROWS",
    "filter_time_range",
    "find_first_time",
    "read_files",
    "read_newest_rows",
    "read_stream_rows",
]
