"""Read progress of streams and partitions, and the watermarks that follow from it. No I/O.

All times are event time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from archiver.ingest.classify import late_bound, latest
from archiver.times import Micros

_CLOCK_STEP = 1_000_000  # microseconds by which a watermark follows the clock


@dataclass(frozen=True)
class ReadProgress:
    """How far a stream or partition has been read.

    `newest`: the newest event time read; `newest_not_ahead`: of the rows that were not ahead of the
    clock of their unit. `advanced`: where it was advanced to without data; `advanced_ahead`: to
    where the watermark has followed rows ahead. None: not yet.
    """

    newest: Micros | None = None
    advanced: Micros | None = None
    newest_not_ahead: Micros | None = None
    advanced_ahead: Micros | None = None

    def with_rows(self, newest: Micros | None, newest_not_ahead: Micros | None) -> "ReadProgress":
        """The progress after reading rows up to an event time; None: no such rows."""
        return replace(
            self,
            newest=latest(self.newest, newest),
            newest_not_ahead=latest(self.newest_not_ahead, newest_not_ahead),
        )

    def with_advanced(self, event_time: Micros | None, *, ahead: bool = False) -> "ReadProgress":
        """The progress after advancing to an event time without data; None: not at all.

        `ahead`: after following rows ahead of the clock.
        """
        if ahead:
            return replace(self, advanced_ahead=latest(self.advanced_ahead, event_time))
        return replace(self, advanced=latest(self.advanced, event_time))

    def watermark(self, lateness: Micros) -> Micros | None:
        """Rows before it are late; None: no row is."""
        return latest(self.watermark_by_rows(lateness), self.advanced_ahead)

    def watermark_by_rows(self, lateness: Micros) -> Micros | None:
        """The watermark, had it not followed rows ahead of the clock."""
        return late_bound(self.newest_not_ahead, lateness, self.advanced)

    def follow_rows_ahead(self, lateness: Micros, clock: Micros, is_silent: bool) -> Micros | None:
        """To where the watermark may follow rows ahead of the clock; None: it may not.

        It may once these rows are past, or if the source is silent: it has brought no other rows
        for a while. Rows are then late compared with the newest row, or with the clock if that is
        earlier.
        """
        newest = self.newest
        if newest is None or newest == self.newest_not_ahead:
            return None
        if newest > clock and not is_silent:
            return None
        event_time = min(newest, clock) - lateness
        current = self.watermark(lateness)
        if current is None:
            return event_time
        # With the clock it would move in each round of the loop.
        step = _CLOCK_STEP if newest > clock else 1
        return event_time if event_time >= current + step else None


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
        return progress.watermark(lateness)
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
        watermarks[name] = partition.progress.watermark(lateness)
    return watermarks
