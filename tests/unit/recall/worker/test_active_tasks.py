"""The turns of an active task."""

from dataclasses import replace

from recall.ledger.records import Task, parse_task
from recall.worker.active_tasks import ActiveTask
from sql import TaskRow
from tests.unit.recall.ledger.test_records import ROW


def task(**changes: object) -> Task:
    pieces = [(4, 40, 50), (3, 30, 40), (1, 10, 20), (0, None, 10)]
    return replace(parse_task(TaskRow(**{**ROW, "pieces": pieces})), **changes)  # type: ignore[arg-type]


def test_run_ends_before_a_piece_that_is_not_adjacent() -> None:
    active_task = ActiveTask(task(), None)
    assert active_task.run_end(1) == 1
    assert active_task.run_end(4) == 2
    assert ActiveTask(task(next=2), None).run_end(9) == 4


def test_turn_is_read_as_one_piece() -> None:
    active_task = ActiveTask(task(next=2), None, turn_end=4)
    assert active_task.turn_piece() == (1, None, 20)


def test_first_and_last_turns_produce_answers() -> None:
    assert ActiveTask(task(), None, turn_end=1).is_answer_due(0.0)
    assert ActiveTask(task(revision=1), None, turn_end=4).is_answer_due(0.0)


def test_turns_in_between_produce_answers_at_intervals() -> None:
    active_task = ActiveTask(task(revision=1), None, turn_end=1, revised_at=10.0)
    assert not active_task.is_answer_due(10.5)
    assert active_task.is_answer_due(11.0)
    assert not ActiveTask(task(revision=1, level=1), None, turn_end=1).is_answer_due(99.0)
