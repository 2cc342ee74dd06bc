"""Forecasts of when tasks finish. No I/O."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from statistics import fmean
from typing import Generic, TypeVar

from recall.scheduling.statistics import TaskStatistics

TaskId = TypeVar("TaskId", bound=Hashable)

# Used if no task has read a piece.
_DEFAULT_SECONDS_PER_PIECE = 0.1


@dataclass(frozen=True)
class RemainingWork(Generic[TaskId]):
    """What a task still has to read, and what it has cost so far."""

    task: TaskId
    level: int
    tickets: int
    pieces_left: int
    statistics: TaskStatistics


@dataclass(frozen=True)
class _TaskEstimate(Generic[TaskId]):
    task: TaskId
    tickets: int
    pieces: int
    seconds_per_piece: float

    @property
    def pieces_per_ticket(self) -> float:
        return self.pieces / self.tickets

    @property
    def seconds(self) -> float:
        return self.pieces * self.seconds_per_piece

    @property
    def seconds_per_share(self) -> float:
        """Seconds for one piece per ticket."""
        return self.tickets * self.seconds_per_piece


def forecast_finishes(
    tasks: Iterable[RemainingWork[TaskId]], concurrency: int
) -> dict[TaskId, float]:
    """In how many seconds each task finishes, if no task joins or leaves.

    Pieces are given out by tickets, level after level, `concurrency` at a time: when a task
    finishes, every other task of its level has had as many pieces per ticket, or all that it needs.
    Queries that tasks share finish sooner. Tasks that have read nothing yet take as long per piece
    as the others do on average.
    """
    remaining = sorted(tasks, key=attrgetter("level"))
    measured = [work.statistics.seconds_per_piece for work in remaining]
    known_seconds = [seconds for seconds in measured if seconds is not None]
    mean_seconds = fmean(known_seconds or [_DEFAULT_SECONDS_PER_PIECE])
    finishes: dict[TaskId, float] = {}
    level_start = 0.0  # seconds from now
    for _, level_tasks in groupby(remaining, key=attrgetter("level")):
        estimates = [_estimate(work, mean_seconds) for work in level_tasks]
        level_finishes = _forecast_level(estimates, concurrency)
        for task, seconds in level_finishes.items():
            finishes[task] = level_start + seconds
        level_start += max(level_finishes.values())
    return finishes


def _estimate(work: RemainingWork[TaskId], mean_seconds: float) -> _TaskEstimate[TaskId]:
    seconds = work.statistics.seconds_per_piece
    if seconds is None:
        seconds = mean_seconds
    return _TaskEstimate(work.task, work.tickets, work.pieces_left, seconds)


def _forecast_level(
    estimates: Sequence[_TaskEstimate[TaskId]], concurrency: int
) -> dict[TaskId, float]:
    """In how many seconds each task finishes after its level starts."""
    finishes: dict[TaskId, float] = {}
    finished_seconds = 0.0  # of work, by tasks that have finished
    running_rate = sum(map(attrgetter("seconds_per_share"), estimates))
    finish = 0.0
    for estimate in sorted(estimates, key=attrgetter("pieces_per_ticket")):
        finished_seconds += estimate.seconds
        running_rate -= estimate.seconds_per_share
        work = finished_seconds + max(running_rate, 0.0) * estimate.pieces_per_ticket
        # No task has more than one query at a time.
        finish = max(finish, work / concurrency, estimate.seconds)
        finishes[estimate.task] = finish
    return finishes
