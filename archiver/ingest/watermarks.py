"""Read progress of streams and partitions, and the watermarks that follow from it. No I/O.

All times are event time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from archiver.ingest.classify import late_bound, latest
from archiver.times import Micros


@dataclass(frozen=True)
class ReadProgress:
    """How far a stream or partition has been read.

    `newest`: the newest event time read. `advanced`: where it was advanced to without data. None:
    not yet.
    """

    newest: Micros | None = None
    advanced: Micros | None = None

    def with_newest(self, event_time: Micros | None) -> "ReadProgress":
        """The progress after reading rows up to an event time; None: no rows."""
        return replace(self, newest=latest(self.newest, event_time))

    def with_advanced(self, event_time: Micros) -> "ReadProgress":
        """The progress after advancing to an event time without data."""
        return replace(self, advanced=latest(self.advanced, event_time))


@dataclass(frozen=True)
class PartitionProgress:
    """How far a partition has been read. `next`: the number of the next record to read."""

    next: int
    progress: ReadProgress


def watermark(
    progress: ReadProgress, partitions: Mapping[str, PartitionProgress], lateness: Micros
) -> Micros | None:
    """The watermark of a stream: rows before it are complete or late. None: nothing was read.

    With partitions, it is the lowest watermark of any partition. The caller must read `progress`
    from the database before `partitions`, never after.
    """
    watermarks = partition_watermarks(partitions, lateness).values()
    marks = [mark for mark in watermarks if mark is not None]
    if not marks:
        return late_bound(progress.newest, lateness, progress.advanced)
    return latest(min(marks), progress.advanced)


def lowest(watermarks: Sequence[Micros | None]) -> Micros | None:
    """The lowest watermark of several streams; None without any, or if one of them is None."""
    marks = [mark for mark in watermarks if mark is not None]
    if len(marks) < len(watermarks):
        return None
    return min(marks, default=None)


def partition_watermarks(
    partitions: Mapping[str, PartitionProgress], lateness: Micros
) -> dict[str, Micros | None]:
    """The watermark of each partition, by partition name; None for a partition not yet read."""
    watermarks: dict[str, Micros | None] = {}
    for name, partition in partitions.items():
        progress = partition.progress
        watermarks[name] = late_bound(progress.newest, lateness, progress.advanced)
    return watermarks
