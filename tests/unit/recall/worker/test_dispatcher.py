"""Which tasks are served first, and which are read together."""

from dataclasses import replace
from uuid import UUID

from recall.worker.active_tasks import ActiveTask
from recall.worker.dispatcher import _count_leading_pieces, _have_same_question, _suspects
from tests.unit.recall.worker.test_active_tasks import task


def test_tasks_with_the_most_failed_attempts_come_first() -> None:
    tasks = [ActiveTask(task(id=UUID(int=n), tries=n % 3), None) for n in range(5)]
    assert _suspects(tasks) == [tasks[2]]
    assert _suspects(tasks[:1]) == []


def test_background_suspects_wait_for_interactive_tasks() -> None:
    background = ActiveTask(task(level=1, tries=2), None)
    assert _suspects([background]) == [background]
    assert _suspects([background, ActiveTask(task(), None)]) == []


def test_comparisons_of_one_rule_version_are_read_together() -> None:
    first, second = ActiveTask(task(), None), ActiveTask(task(id=UUID(int=9)), None)
    assert _have_same_question(first, second)
    assert not _have_same_question(first, replace(second, task=task(version="2")))


def test_leading_pieces_end_at_the_first_other_chunk() -> None:
    assert _count_leading_pieces(ActiveTask(task(), None), {4, 3, 0}) == 2
    assert _count_leading_pieces(ActiveTask(task(next=1), None), {4}) == 0
