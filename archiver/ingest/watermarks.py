"""How far streams have been read, and up to which event time they are complete by that. Pure; times in microseconds."""

from collections.abc import Mapping
from dataclasses import dataclass

from archiver.ingest.classify import late_bound


@dataclass(frozen=True)
class ReadProgress:
    """How far a stream has been read, in microseconds of event time; None: not at all."""

    newest: int | None = None
    advanced: int | None = None


@dataclass(frozen=True)
class PartitionProgress:
    """How far a partition of a stream has been read: the number of its next record, and in event time."""

    next: int
    progress: ReadProgress


def watermark(
    progress: ReadProgress, partitions: Mapping[str, PartitionProgress], lateness: int
) -> int | None:
    """Rows of a stream before this event time are complete or late. None: nothing read.

    The partition furthest behind holds the stream back. `progress` must not be read after `partitions`.
    """
    marks = [
        mark for mark in partition_watermarks(partitions, lateness).values() if mark is not None
    ]
    if not marks:
        return late_bound(progress.newest, lateness, progress.advanced)
    return min(marks) if progress.advanced is None else max(min(marks), progress.advanced)


def partition_watermarks(
    partitions: Mapping[str, PartitionProgress], lateness: int
) -> dict[str, int | None]:
    """The same for each partition of a stream, by itself."""
    return {
        name: late_bound(one.progress.newest, lateness, one.progress.advanced)
        for name, one in partitions.items()
    }
