"""Stride scheduling of tasks (Waldspurger and Weihl, 1995; Moirae, CIDR 2007, section 4.4).

Each task advances its pass value by a stride, the inverse of its tickets, for each piece of history
that it is given. The task with the lowest pass value is next, so over time each task receives a
share in proportion to its tickets. A task that joins starts at the pass value of the others: with
neither credit nor debt. No I/O.
"""

from collections.abc import Hashable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Generic, Self, TypeVar

TaskId = TypeVar("TaskId", bound=Hashable)

# The pass value per piece of a task with one ticket.
_STRIDE_SCALE = 1 << 20


@dataclass(frozen=True)
class _Entry:
    tickets: int
    level: int
    pass_value: float

    @property
    def stride(self) -> float:
        return _STRIDE_SCALE / self.tickets


class StrideScheduler(Generic[TaskId]):
    """Tasks with tickets, on levels: a task is next only if no task of a lower level is ready."""

    def __init__(self) -> None:
        self._entries: dict[TaskId, _Entry] = {}
        # The lowest pass value of each level, which never decreases.
        self._level_pass: dict[int, float] = {}

    def __contains__(self, task: TaskId) -> bool:
        return task in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def copy(self) -> Self:
        """A scheduler of the same class with the same tasks, to be changed separately."""
        other = copy(self)
        other._entries = dict(self._entries)
        other._level_pass = dict(self._level_pass)
        return other

    def join(self, task: TaskId, tickets: int, level: int = 0) -> None:
        """Add a task, or change the tickets or level of a present one."""
        if tickets < 1:
            raise ValueError("a task has at least one ticket")
        entry = self._entries.get(task)
        level_pass = self._level_pass.setdefault(level, 0.0)
        if entry is not None and entry.level == level:
            # What remains of its stride shrinks or grows with the stride.
            remaining = (entry.pass_value - level_pass) * entry.tickets / tickets
            pass_value = level_pass + remaining
        else:
            pass_value = level_pass + _STRIDE_SCALE / tickets
        self._entries[task] = _Entry(tickets, level, pass_value)

    def leave(self, task: TaskId) -> None:
        """Remove a task, if it is present."""
        self._entries.pop(task, None)

    def next_task(self, ready: Iterable[TaskId]) -> TaskId | None:
        """Which of the ready tasks is next; of equals the one that joined first. None: none is."""
        ready_tasks = set(ready)
        next_task: TaskId | None = None
        lowest = (0, 0.0)
        for task, entry in self._entries.items():
            priority = (entry.level, entry.pass_value)
            if task in ready_tasks and (next_task is None or priority < lowest):
                next_task = task
                lowest = priority
        return next_task

    def has_same_share(self, first: TaskId, second: TaskId) -> bool:
        """Whether two tasks are served alike: on one level, with as many tickets."""
        first_entry, second_entry = self._entries.get(first), self._entries.get(second)
        if first_entry is None or second_entry is None:
            return False
        return (first_entry.level, first_entry.tickets) == (
            second_entry.level,
            second_entry.tickets,
        )

    def is_due_before(self, candidate: TaskId, task: TaskId, pieces: int) -> bool:
        """Whether a candidate is due before a task that is now given `pieces` is due again.

        If so, both can be given these pieces at the same time, and shares still follow tickets.
        """
        candidate_entry = self._entries[candidate]
        entry = self._entries[task]
        if candidate_entry.level != entry.level:
            return False
        return candidate_entry.pass_value <= entry.pass_value + entry.stride * pieces

    def charge_pieces(self, tasks: Mapping[TaskId, int]) -> None:
        """Advance tasks that were served together by the numbers of pieces that they were given."""
        levels = set()
        for task, pieces in tasks.items():
            entry = self._entries.get(task)
            if entry is None:
                continue
            pass_value = entry.pass_value + entry.stride * pieces
            self._entries[task] = replace(entry, pass_value=pass_value)
            levels.add(entry.level)
        for level in levels:
            lowest = min(e.pass_value for e in self._entries.values() if e.level == level)
            self._level_pass[level] = max(self._level_pass[level], lowest)
