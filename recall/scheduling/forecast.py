"""When tasks will have ended, as far as one can tell. Pure."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean
from typing import Generic, TypeVar

TaskId = TypeVar("TaskId", bound=Hashable)

# Where nothing is known: pieces, seconds for each.
_DEFAULT_PIECES_LEFT, _DEFAULT_SECONDS_PER_PIECE = 1, 0.1


@dataclass(frozen=True)
class RemainingWork(Generic[TaskId]):
    """What a task still has to read: pieces (None: not known), seconds for each (None: it has read none)."""

    task: TaskId
    level: int
    tickets: int
    pieces_left: int | None
    seconds_per_piece: float | None


def forecast_finishes(
    tasks: Iterable[RemainingWork[TaskId]], concurrency: int
) -> dict[TaskId, float]:
    """In how many seconds each task will have ended, when nothing comes and nothing goes.

    Pieces are given out by tickets, level after level, `places` at once: when a task is through, every other task of
    its level has had as many pieces for each of its tickets, or all it wanted. Shared queries make it sooner.
    """
    known = list(tasks)
    each = fmean(
        [one.seconds_per_piece for one in known if one.seconds_per_piece is not None]
        or [_DEFAULT_SECONDS_PER_PIECE]
    )
    left = fmean(
        [one.pieces_left for one in known if one.pieces_left is not None] or [_DEFAULT_PIECES_LEFT]
    )
    found: dict[TaskId, float] = {}
    begin = 0.0
    for _, level in groupby(sorted(known, key=lambda one: one.level), key=lambda one: one.level):
        work = [
            (
                left if one.pieces_left is None else one.pieces_left,
                each if one.seconds_per_piece is None else one.seconds_per_piece,
                one,
            )
            for one in level
        ]
        begin += _forecast_level(
            [(n / one.tickets, n * cost, one.tickets * cost, one.task) for n, cost, one in work],
            begin,
            concurrency,
            found,
        )
    return found


def _forecast_level(
    work: Sequence[tuple[float, float, float, TaskId]],
    begin: float,
    places: int,
    found: dict[TaskId, float],
) -> float:
    """`work`: pieces for each ticket, seconds in all, seconds for each piece for each ticket. Returns the level's own
    time."""
    through, rate, last = 0.0, sum(cost for _, _, cost, _ in work), 0.0
    for share, seconds, cost, task in sorted(work, key=lambda one: one[0]):
        through, rate = through + seconds, rate - cost
        # No task has more than one query at a time.
        last = max(last, max((through + max(rate, 0.0) * share) / places, seconds))
        found[task] = begin + last
    return last
