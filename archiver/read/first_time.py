"""The event time of the first row of a stream."""

from operator import attrgetter

from archiver.delta import StreamTable
from archiver.time_range import ALL_TIME
from archiver.times import Micros, micros_column


def find_first_time(table: StreamTable) -> Micros | None:
    """The earliest event time of archived rows that were not late; None without any.

    Files are read in the order of their oldest row: mostly one.
    """
    files = [file for file in table.data_files(ALL_TIME) if not file.is_foreign]
    first: Micros | None = None
    for file in sorted(files, key=attrgetter("oldest")):
        if first is not None and file.oldest >= first:
            break
        time_column = table.schema.time
        times = micros_column(table.read_on_time(file.path, [time_column]), time_column)
        if len(times):
            oldest = int(times.min())
            first = oldest if first is None else min(first, oldest)
    return first
