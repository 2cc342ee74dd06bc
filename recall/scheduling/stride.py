"""Whose turn it is: stride scheduling over tasks (Waldspurger and Weihl, 1995; Moirae, CIDR 2007, §4.4). Pure.

Each task advances its `passed` by a stride, the inverse of its tickets, for each piece of history it gets; the task
that is furthest behind goes next. So over time each gets a share that goes by its tickets. A task that joins begins
where the others are: it has neither credit nor debt.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

TaskId = TypeVar("TaskId", bound=Hashable)

_STRIDE_SCALE = 1 << 20


@dataclass
class _Entry:
    tickets: int
    level: int
    pass_value: float


class StrideScheduler(Generic[TaskId]):
    """Tasks with tickets, on levels: a task gets a turn only when no task of a lower level wants one."""

    def __init__(self) -> None:
        self._entries: dict[TaskId, _Entry] = {}
        self._level_pass: dict[int, float] = {}

    def __contains__(self, task: TaskId) -> bool:
        return task in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def join(self, task: TaskId, tickets: int, level: int = 0) -> None:
        """A task comes, or comes again with other tickets or on another level."""
        if tickets < 1:
            raise ValueError("a task has at least one ticket")
        known = self._entries.get(task)
        if known is not None and known.level == level:
            # What it waits for shrinks or grows with its stride.
            ahead = (known.pass_value - self._level_pass[level]) * known.tickets / tickets
            self._entries[task] = _Entry(tickets, level, self._level_pass[level] + ahead)
            return
        stride = _STRIDE_SCALE / tickets
        self._entries[task] = _Entry(
            tickets, level, self._level_pass.setdefault(level, 0.0) + stride
        )

    def leave(self, task: TaskId) -> None:
        """A task is gone."""
        self._entries.pop(task, None)

    def next_task(self, ready: Iterable[TaskId]) -> TaskId | None:
        """Of the tasks that can use a turn, whose it is; of equals the one that came first."""
        waiting = set(ready)
        order = [task for task in self._entries if task in waiting]
        return min(
            order, key=lambda t: (self._entries[t].level, self._entries[t].pass_value), default=None
        )

    def is_due_before(self, other: TaskId, task: TaskId, pieces: int) -> bool:
        """Whether another's turn comes before the next one of a task that gets so many pieces now: the other may have
        them at the same time, and shares hold."""
        one, turn = self._entries[other], self._entries[task]
        return (
            one.level == turn.level
            and one.pass_value <= turn.pass_value + _STRIDE_SCALE / turn.tickets * pieces
        )

    def charge_pieces(self, tasks: Mapping[TaskId, int]) -> None:
        """Tasks have had turns together, each as many as pieces of history it got."""
        for task, pieces in tasks.items():
            turn = self._entries.get(task)
            if turn is not None:
                turn.pass_value += _STRIDE_SCALE / turn.tickets * pieces
                others = [t.pass_value for t in self._entries.values() if t.level == turn.level]
                self._level_pass[turn.level] = max(self._level_pass[turn.level], min(others))


# A run of pieces is read by one query for so many seconds at most, if it can be told. How many times as many pieces it
# has as were read before: the fewer queries there are, the less is spent on planning and storing; lengths that do not
# hang on times, as they do not while pieces are fast, are the same for whoever asks the same later, so that kept
# answers are found again.
MAX_RUN_SECONDS, _RUN_GROWTH = 1.0, 6


def choose_run_length(
    pieces_read: int, pieces_left: int, seconds_per_piece: float | None, is_alone: bool
) -> int:
    """How many consecutive pieces of history the next query of a task reads: 1, 6, 42 … while it is alone; one where
    others want their turns too: shares hold, and who is killed has no more to read again.

    `read`: pieces it has read already; `left`: that it has not; `each`: seconds that each of the last ones took; while
    that is not known it is one.
    """
    if seconds_per_piece is None or not is_alone:
        return 1
    wanted = (
        _RUN_GROWTH * pieces_read
        if seconds_per_piece <= 0
        else min(_RUN_GROWTH * pieces_read, int(MAX_RUN_SECONDS / seconds_per_piece))
    )
    return min(max(wanted, 1), pieces_left)
