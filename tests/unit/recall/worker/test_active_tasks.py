"""Active tasks, their turns, and the replacement of their states."""

from dataclasses import replace
from typing import Any
from uuid import UUID

from recall.ledger.records import Task, parse_task
from recall.requests import Piece
from recall.scheduling.stride import StrideScheduler
from recall.worker.active_tasks import ActiveTask, ActiveTasks, TurnTask
from sql.recalls import TaskRow
from tests.unit.recall.ledger.test_records import ROW

PIECES = [[4, 40, 50], [3, 30, 40], [1, 10, 20], [0, None, 10]]


def task(**changes: Any) -> Task:
    return parse_task(TaskRow(**{**ROW, "pieces": PIECES, **changes}))


def active_task(revised_at: float = 0.0, **changes: Any) -> ActiveTask:
    return ActiveTask(task(**changes), None, "question", revised_at=revised_at)


def test_turn_is_read_as_one_piece() -> None:
    assert TurnTask(active_task(next=2), 4).piece == Piece(1, None, 20)


def test_first_and_last_turns_produce_answers() -> None:
    assert TurnTask(active_task(), 1).is_answer_due(0.0)
    assert TurnTask(active_task(revision=1), 4).is_answer_due(0.0)


def test_turns_in_between_produce_answers_at_intervals() -> None:
    turn = TurnTask(active_task(revision=1, revised_at=10.0), 1)
    assert not turn.is_answer_due(10.5)
    assert turn.is_answer_due(11.0)
    assert not TurnTask(active_task(revision=1, level=1), 1).is_answer_due(99.0)


def test_task_under_another_claim_is_not_found() -> None:
    tasks = ActiveTasks(StrideScheduler())
    first, second = active_task(), active_task(fence=9)
    tasks.add(second)
    assert tasks.find(first.spec) is None
    assert tasks.find(second.spec) is second


def test_update_replaces_the_state_and_keeps_the_earlier_one() -> None:
    tasks = ActiveTasks(StrideScheduler())
    before = active_task()
    tasks.add(before)
    after = tasks.update(before, replace(before.progress, next=1))
    assert (before.progress.next, after.progress.next) == (0, 1)
    assert tasks.tasks[before.spec.id] is after
    assert after.schedulable.next == 1


def test_busy_task_is_not_idle() -> None:
    tasks = ActiveTasks(StrideScheduler())
    tasks.add(active_task())
    assert tasks.idle_task_ids() == [UUID(int=1)]
    tasks.set_busy(active_task().spec, True)
    assert tasks.idle_task_ids() == []


def test_dropped_task_is_not_scheduled() -> None:
    tasks = ActiveTasks(StrideScheduler())
    tasks.add(active_task())
    tasks.drop(UUID(int=1))
    assert not tasks.tasks
    assert UUID(int=1) not in tasks.stride
