"""When tasks will have ended, as far as one can tell. Pure."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean
from typing import Generic, TypeVar

Name = TypeVar("Name", bound=Hashable)

# Where nothing is known: pieces, seconds for each.
_LEFT, _EACH = 1, 0.1


@dataclass(frozen=True)
class Ahead(Generic[Name]):
    """What a task still has to read: pieces (None: not known), seconds for each (None: it has read none)."""

    task: Name
    level: int
    tickets: int
    left: int | None
    each: float | None


def finishes(tasks: Iterable[Ahead[Name]], places: int) -> dict[Name, float]:
    """In how many seconds each task will have ended, when nothing comes and nothing goes.

    Pieces are given out by tickets, level after level, `places` at once: when a task is through, every other task of
    its level has had as many pieces for each of its tickets, or all it wanted. Shared queries make it sooner.
    """
    known = list(tasks)
    each = fmean([one.each for one in known if one.each is not None] or [_EACH])
    left = fmean([one.left for one in known if one.left is not None] or [_LEFT])
    found: dict[Name, float] = {}
    begin = 0.0
    for _, level in groupby(sorted(known, key=lambda one: one.level), key=lambda one: one.level):
        work = [(left if one.left is None else one.left, each if one.each is None else one.each, one) for one in level]
        begin += _level(
            [(n / one.tickets, n * cost, one.tickets * cost, one.task) for n, cost, one in work], begin, places, found
        )
    return found


def _level(
    work: Sequence[tuple[float, float, float, Name]], begin: float, places: int, found: dict[Name, float]
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
