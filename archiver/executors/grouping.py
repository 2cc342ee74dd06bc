"""Which rows of a batch belong together in later jobs. No I/O.

Groups are the rows that the local engine appends at once: chunks are cut after each group. Buckets
are ranges of event time of about equal numbers of rows.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from archiver.executors.tasks.decode import DecodedSegment
from archiver.ingest import BATCH_RECORDS

_POINTS_PER_SEGMENT = 9


def assign_groups(segments: Sequence[DecodedSegment], streams: Mapping[int, str]) -> list[int]:
    """The group of each segment. `segments`: of the batch in the order of arrival.

    `streams`: the stream of each unit. A group has one stream, and ends with the slice with which it
    has `BATCH_RECORDS` rows.
    """
    groups: list[int] = []
    group = 0
    rows = 0
    previous: DecodedSegment | None = None
    for segment in segments:
        if previous is not None and (segment.unit, segment.slice) != (
            previous.unit,
            previous.slice,
        ):
            is_other_stream = streams[segment.unit] != streams[previous.unit]
            if rows >= BATCH_RECORDS or is_other_stream:
                group += 1
                rows = 0
        groups.append(group)
        rows += segment.rows
        previous = segment
    return groups


class TimedRows(Protocol):
    """Rows with event times from `oldest` to `newest`; None without rows."""

    @property
    def rows(self) -> int: ...
    @property
    def oldest(self) -> int | None: ...
    @property
    def newest(self) -> int | None: ...


def divide_times(segments: Sequence[TimedRows], count: int) -> list[int]:
    """Event times that divide the rows of segments into up to `count` buckets, ascending.

    The rows of a segment are taken to be spread evenly over its range of event time.
    """
    points: list[np.ndarray] = []
    weights: list[np.ndarray] = []
    for segment in segments:
        if segment.oldest is not None and segment.newest is not None:
            points.append(np.linspace(segment.oldest, segment.newest, _POINTS_PER_SEGMENT))
            weights.append(np.full(_POINTS_PER_SEGMENT, segment.rows / _POINTS_PER_SEGMENT))
    if not points or count < 2:
        return []
    times = np.concatenate(points)
    order = np.argsort(times, kind="stable")
    cumulative = np.cumsum(np.concatenate(weights)[order])
    targets = cumulative[-1] * np.arange(1, count) / count
    bounds = times[order][np.searchsorted(cumulative, targets)].astype(np.int64)
    return sorted(set(bounds.tolist()))
