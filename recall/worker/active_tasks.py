"""The tasks that this process works on, in memory. Their states are replaced, never changed."""

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from uuid import UUID

from recall.engines import Template
from recall.ledger import Task, TaskProgress, TaskSpec
from recall.requests import Piece, SqlQuestion, join_pieces, piece_seconds
from recall.scheduling import SchedulableTask, StrideScheduler, ValueRange, enclose_values

# How often a process may fail at one piece of a task before the task fails.
MAX_ATTEMPTS = 3


@dataclass(frozen=True)
class ActiveTask:
    """A claimed task and the state of its turns, at one time.

    `template`: its query; None for a comparison. `question_key`: equal for tasks with the same
    query, or that compare with the same corpus. `revised_at`: when it got its last revision, by the
    monotonic clock, in seconds. `has_improved`: whether the best hits have changed since the last
    revision. `summarised`: the chunks that summaries answer, as known when it became active.
    `piece_values`: of each piece, the values of the column of the order `extreme`, as of then; None:
    not known. Empty for other orders.
    """

    task: Task
    template: Template | None
    question_key: Hashable
    revised_at: float = 0.0
    has_improved: bool = False
    is_busy: bool = False
    summarised: Collection[int] = ()
    piece_values: Sequence[ValueRange | None] = ()

    @property
    def spec(self) -> TaskSpec:
        return self.task.spec

    @property
    def progress(self) -> TaskProgress:
        return self.task.progress

    @property
    def pieces(self) -> Sequence[Piece]:
        """What the task reads; it is pinned when the task becomes active."""
        assert self.progress.pieces is not None
        return self.progress.pieces

    @cached_property
    def piece_seconds(self) -> Sequence[float]:
        """The length of each piece, in seconds of event time."""
        return piece_seconds(self.pieces)

    @property
    def is_whole(self) -> bool:
        """Whether each turn reads all pieces so far again, see `recall.query.split.Split.whole`."""
        return self.template is not None and self.template.split.whole is not None

    @property
    def is_background(self) -> bool:
        return self.progress.level > 0

    @property
    def is_following(self) -> bool:
        """Whether history is read, and live rows extend the answer."""
        question = self.spec.question
        follows = isinstance(question, SqlQuestion) and question.follow
        return follows and self.progress.has_read_all

    @cached_property
    def schedulable(self) -> SchedulableTask:
        """What the scheduler knows about the task."""
        spec, progress = self.spec, self.progress
        return SchedulableTask(
            id=spec.id,
            event=spec.event.eid,
            event_ts=spec.event.ts,
            question=self.question_key,
            needs_engine=self.template is not None,
            is_background=self.is_background,
            created_at=spec.created_at,
            pieces=progress.pieces or (),
            next=progress.next,
            has_answer=progress.revision > 0,
            tries=progress.tries,
            statistics=progress.statistics,
            is_busy=self.is_busy,
            is_whole=self.is_whole,
            reads_ranges=self.template is not None and self.template.reads_ranges,
            summarised=self.summarised,
        )


@dataclass(frozen=True)
class TurnTask:
    """A task as it is when its turn begins. `end`: the cursor after the turn."""

    active_task: ActiveTask
    end: int

    @property
    def spec(self) -> TaskSpec:
        return self.active_task.spec

    @property
    def progress(self) -> TaskProgress:
        return self.active_task.progress

    @property
    def pieces(self) -> Sequence[Piece]:
        """The pieces of the turn."""
        start = 0 if self.active_task.is_whole else self.progress.next
        return self.active_task.pieces[start : self.end]

    @property
    def piece(self) -> Piece | None:
        """The pieces of the turn as one; None: there is nothing to read.

        A query that stays whole reads an empty range where there is no history: it may count rows.
        """
        if self.active_task.is_whole and not self.pieces:
            event_ts = self.spec.event.ts
            return Piece(0, event_ts, event_ts)
        return join_pieces(self.pieces) if self.pieces else None

    def unread_values(self, failed: int) -> dict[str, list[float]]:
        """The least and the greatest value of the column of the order `extreme` in unread pieces.

        By column; empty if they are not known, or for other orders. `failed`: how many pieces could
        not be read; which ones is not known.
        """
        question = self.spec.question
        values = self.active_task.piece_values[0 if failed else self.end :]
        unread = enclose_values(values)
        if not isinstance(question, SqlQuestion) or question.extreme is None or unread is None:
            return {}
        return {} if unread.is_empty else {question.extreme: list(unread)}

    def is_answer_due(self, now: float) -> bool:
        """Whether the turn produces a revision. `now`: by the monotonic clock, in seconds.

        The first and the last turn do; in between, those of interactive tasks every `every`
        seconds.
        """
        active_task = self.active_task
        return (
            self.end >= len(active_task.pieces)
            or self.progress.revision == 0
            or (
                not active_task.is_background
                and now - active_task.revised_at >= self.spec.question.every
            )
        )


class ActiveTasks:
    """The active tasks, by ID, and the scheduler that picks the next one."""

    def __init__(self, stride: StrideScheduler[UUID]) -> None:
        self.tasks: dict[UUID, ActiveTask] = {}
        self.stride = stride
        self.has_backlog = False
        """Whether tasks without an answer wait in the ledger for lack of room."""

    def idle_task_ids(self) -> list[UUID]:
        """The tasks that wait for a turn."""
        return [
            task_id
            for task_id, active_task in self.tasks.items()
            if not active_task.is_busy and not active_task.is_following
        ]

    def schedulable_tasks(self) -> list[SchedulableTask]:
        """What the scheduler knows about the tasks that read history."""
        return [
            active_task.schedulable
            for active_task in self.tasks.values()
            if not active_task.is_following
        ]

    def following(self) -> list[ActiveTask]:
        """The tasks whose answers live rows extend."""
        return [active_task for active_task in self.tasks.values() if active_task.is_following]

    def add(self, active_task: ActiveTask) -> None:
        progress = active_task.progress
        self.tasks[active_task.spec.id] = active_task
        self.stride.join(active_task.spec.id, progress.tickets, progress.level)

    def drop(self, task_id: UUID) -> None:
        """Remove a task from the active ones."""
        self.tasks.pop(task_id, None)
        self.stride.leave(task_id)

    def find(self, spec: TaskSpec) -> ActiveTask | None:
        """The current state of a task; None if it is not active any more under the same claim."""
        active_task = self.tasks.get(spec.id)
        if active_task is None or active_task.spec.fence != spec.fence:
            return None
        return active_task

    def update(self, active_task: ActiveTask, progress: TaskProgress) -> ActiveTask:
        """Replace the progress of an active task."""
        before = active_task.progress
        updated = replace(active_task, task=replace(active_task.task, progress=progress))
        self.tasks[active_task.spec.id] = updated
        if (progress.level, progress.tickets) != (before.level, before.tickets):
            self.stride.join(active_task.spec.id, progress.tickets, progress.level)
        return updated

    def set_busy(self, spec: TaskSpec, is_busy: bool) -> None:
        """Set whether an active task has a turn now."""
        active_task = self.find(spec)
        if active_task is not None:
            self.tasks[spec.id] = replace(active_task, is_busy=is_busy)
