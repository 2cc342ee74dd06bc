"""Whose turn it is: stride scheduling over tasks (Waldspurger and Weihl, 1995; Moirae, CIDR 2007, §4.4). Pure.

Each task advances its `passed` by a stride, the inverse of its tickets, for each piece of history it gets; the task
that is furthest behind goes next. So over time each gets a share that goes by its tickets. A task that joins begins
where the others are: it has neither credit nor debt.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

Task = TypeVar("Task", bound=Hashable)

_STRIDE = 1 << 20


@dataclass
class _Turn:
    tickets: int
    level: int
    passed: float


class Stride(Generic[Task]):
    """Tasks with tickets, on levels: a task gets a turn only when no task of a lower level wants one."""

    def __init__(self) -> None:
        self._turns: dict[Task, _Turn] = {}
        self._now: dict[int, float] = {}

    def __contains__(self, task: Task) -> bool:
        return task in self._turns

    def __len__(self) -> int:
        return len(self._turns)

    def join(self, task: Task, tickets: int, level: int = 0) -> None:
        """A task comes, or comes again with other tickets or on another level."""
        if tickets < 1:
            raise ValueError("a task has at least one ticket")
        known = self._turns.get(task)
        if known is not None and known.level == level:
            # What it waits for shrinks or grows with its stride.
            ahead = (known.passed - self._now[level]) * known.tickets / tickets
            self._turns[task] = _Turn(tickets, level, self._now[level] + ahead)
            return
        stride = _STRIDE / tickets
        self._turns[task] = _Turn(tickets, level, self._now.setdefault(level, 0.0) + stride)

    def leave(self, task: Task) -> None:
        """A task is gone."""
        self._turns.pop(task, None)

    def next(self, able: Iterable[Task]) -> Task | None:
        """Of the tasks that can use a turn, whose it is; of equals the one that came first."""
        waiting = set(able)
        order = [task for task in self._turns if task in waiting]
        return min(order, key=lambda t: (self._turns[t].level, self._turns[t].passed), default=None)

    def comes_before(self, other: Task, task: Task, pieces: int) -> bool:
        """Whether another's turn comes before the next one of a task that gets so many pieces now: the other may have
        them at the same time, and shares hold."""
        one, turn = self._turns[other], self._turns[task]
        return one.level == turn.level and one.passed <= turn.passed + _STRIDE / turn.tickets * pieces

    def served(self, tasks: Mapping[Task, int]) -> None:
        """Tasks have had turns together, each as many as pieces of history it got."""
        for task, pieces in tasks.items():
            turn = self._turns.get(task)
            if turn is not None:
                turn.passed += _STRIDE / turn.tickets * pieces
                others = [t.passed for t in self._turns.values() if t.level == turn.level]
                self._now[turn.level] = max(self._now[turn.level], min(others))


# A run of pieces is read by one query for so many seconds at most, if it can be told. How many times as many pieces it
# has as were read before: the fewer queries there are, the less is spent on planning and storing; lengths that do not
# hang on times, as they do not while pieces are fast, are the same for whoever asks the same later, so that kept
# answers are found again.
LONGEST, _GROWTH = 1.0, 6


def run(read: int, left: int, each: float | None, alone: bool) -> int:
    """How many consecutive pieces of history the next query of a task reads: 1, 6, 42 … while it is alone; one where
    others want their turns too: shares hold, and who is killed has no more to read again.

    `read`: pieces it has read already; `left`: that it has not; `each`: seconds that each of the last ones took; while
    that is not known it is one.
    """
    if each is None or not alone:
        return 1
    wanted = _GROWTH * read if each <= 0 else min(_GROWTH * read, int(LONGEST / each))
    return min(max(wanted, 1), left)
