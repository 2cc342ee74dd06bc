"""Which rows of a batch belong together in later jobs. No I/O.

Groups are the rows that the local engine appends at once: chunks are cut after each group. Buckets
are ranges of event time of about equal numbers of rows. Shared times are those of several tasks.
"""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Protocol

import numpy as np
import numpy.typing as npt

from archiver.ingest import BATCH_RECORDS
from archiver.times import MicrosArray

_POINTS_PER_SEGMENT = 9
_MIN_TASKS_PER_CORE = 2  # so that a core that is slowed down gets fewer


def choose_task_count(rows: float, cores: int, min_rows: int, max_rows: int) -> int:
    """Number of tasks for some rows: a multiple of the cores, so that none of them is idle at the
    end.

    A task gets up to about `max_rows`; there are fewer tasks if they had less than `min_rows`.
    """
    tasks_per_core = max(_MIN_TASKS_PER_CORE, ceil(rows / (max_rows * cores)))
    return max(1, min(cores * tasks_per_core, int(rows // min_rows)))


def divide_evenly(sizes: Sequence[float], count: int) -> list[slice]:
    """Divide consecutive items of some sizes into up to `count` groups of about equal size."""
    group_size = sum(sizes) / count
    groups: list[slice] = []
    start = 0
    size_before = 0.0  # of the items before the current one
    end_size = group_size  # of the items up to the end of the current group
    for position, size in enumerate(sizes):
        if position > start and size_before + size / 2 > end_size:
            groups.append(slice(start, position))
            start = position
            while size_before + size / 2 > end_size:
                end_size += group_size
        size_before += size
    if start < len(sizes):
        groups.append(slice(start, len(sizes)))
    return groups


class SliceRows(Protocol):
    """Rows of a slice of a source unit."""

    @property
    def unit(self) -> int: ...
    @property
    def slice(self) -> int: ...
    @property
    def rows(self) -> int: ...


def assign_groups(segments: Sequence[SliceRows], streams: Mapping[int, str]) -> list[int]:
    """The group of each segment. `segments`: of the batch in the order of arrival.

    `streams`: the stream of each unit. A group has one stream, and ends with the slice with which it
    has `BATCH_RECORDS` rows.
    """
    groups: list[int] = []
    group = 0
    rows = 0
    previous: SliceRows | None = None
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


def find_shared_times(segments_by_task: Sequence[Sequence[TimedRows]]) -> list[int]:
    """The ranges of event time in which several tasks may have rows, as bounds.

    Ascending: the first time of a range and the first time after it, alternately.
    """
    steps: list[tuple[int, int]] = []
    for segments in segments_by_task:
        oldest = [segment.oldest for segment in segments if segment.oldest is not None]
        newest = [segment.newest for segment in segments if segment.newest is not None]
        if oldest:
            steps += [(min(oldest), 1), (max(newest) + 1, -1)]
    bounds: list[int] = []
    task_count = 0
    for time, step in sorted(steps):
        if (task_count, step) in ((1, 1), (2, -1)):
            bounds.append(time)
        task_count += step
    return bounds


def is_within(bounds: Sequence[int], times: MicrosArray) -> npt.NDArray[np.bool_]:
    """By time, whether it lies in one of the ranges of `find_shared_times`."""
    return np.asarray(np.searchsorted(bounds, times, side="right") % 2 == 1)
