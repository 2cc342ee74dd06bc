"""Forecasts of when tasks finish. No I/O."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from statistics import fmean
from typing import Generic, TypeVar

TaskId = TypeVar("TaskId", bound=Hashable)

# Used if no task has a known number of pieces, or a measured duration.
_DEFAULT_PIECES_LEFT = 1
_DEFAULT_SECONDS_PER_PIECE = 0.1


@dataclass(frozen=True)
class RemainingWork(Generic[TaskId]):
    """What a task still has to read.

    `pieces_left` None: not known. `seconds_per_piece` None: it has read none yet.
    """

    task: TaskId
    level: int
    tickets: int
    pieces_left: int | None
    seconds_per_piece: float | None


@dataclass(frozen=True)
class _TaskEstimate(Generic[TaskId]):
    task: TaskId
    tickets: int
    pieces: float
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
    Queries that tasks share finish sooner. Unknown numbers are the means of the known ones.
    """
    remaining = sorted(tasks, key=attrgetter("level"))
    mean_pieces = _mean_of_known(map(attrgetter("pieces_left"), remaining), _DEFAULT_PIECES_LEFT)
    mean_seconds = _mean_of_known(
        map(attrgetter("seconds_per_piece"), remaining), _DEFAULT_SECONDS_PER_PIECE
    )
    finishes: dict[TaskId, float] = {}
    level_start = 0.0  # seconds from now
    for _, level_tasks in groupby(remaining, key=attrgetter("level")):
        estimates = [_estimate(task, mean_pieces, mean_seconds) for task in level_tasks]
        level_finishes = _forecast_level(estimates, concurrency)
        for task, seconds in level_finishes.items():
            finishes[task] = level_start + seconds
        level_start += max(level_finishes.values())
    return finishes


def _mean_of_known(values: Iterable[float | None], default: float) -> float:
    known_values = [value for value in values if value is not None]
    return fmean(known_values or [default])


def _estimate(
    work: RemainingWork[TaskId], mean_pieces: float, mean_seconds: float
) -> _TaskEstimate[TaskId]:
    pieces = mean_pieces if work.pieces_left is None else work.pieces_left
    seconds = mean_seconds if work.seconds_per_piece is None else work.seconds_per_piece
    return _TaskEstimate(work.task, work.tickets, pieces, seconds)


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
