"""Commands on recalls and feedback: their effect on tasks, tickets and answers."""

import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from recall.engines.duckdb.engine import LocalEngine
from recall.engines.template import PartialQuery
from recall.errors import CommandKeyConflict
from recall.ledger.commands import Target, fetch_effect, submit_command
from recall.ledger.tasks import SchedulingPolicy
from recall.statements.statement import Statement
from tests.integration.history import History, run_until

ENDLESS = Statement("SELECT count(*) FROM range(100000) a, range(100000) b, range(1000) c")


def test_command_is_answered_with_its_effect(past: History) -> None:
    tasks = [past.add_task(number) for number in (1, 2)]
    with past.manager() as manager:
        run_until(manager, lambda: all(past.task(task)["next"] >= 2 for task in tasks))
        pieces_left = len(past.task(tasks[0])["pieces"]) - past.task(tasks[0])["next"]
        number = submit_command(
            past.connection, "a", "accelerate", Target(task=str(tasks[0])), "test"
        )
        run_until(manager, lambda: fetch_effect(past.connection, number) is not None)
        effect = fetch_effect(past.connection, number)
        assert effect is not None and effect.recalls == 1 and 0 < effect.chunks_left <= pieces_left
        assert effect.seconds_before is not None and effect.seconds_after is not None
        assert 0 < effect.seconds_after <= effect.seconds_before


def test_cancelled_recall_has_no_answer_and_finalized_recall_keeps_its_last(past: History) -> None:
    first, second, third = (past.add_task(number, rule=f"g/r{number}") for number in (1, 2, 3))
    with past.manager() as manager:
        run_until(
            manager,
            lambda: all(past.task(task)["revision"] >= 1 for task in (first, second, third)),
        )
        submit_command(
            past.connection, "a", "cancel", Target(eid=str(past.task(first)["eid"])), "test"
        )
        submit_command(past.connection, "b", "finalize", Target(rule="r2"), "test")
        run_until(manager, lambda: past.task(third)["state"] == "done")
    assert past.task(first)["state"] == "cancelled" and not past.revisions(first)
    assert past.task(second)["state"] == "finalized"
    *_, last = past.revisions(second)
    assert (
        last["coverage"]["final"]
        and last["coverage"]["partial"]
        and last["number"] == past.task(second)["revision"]
    )
    assert past.revisions(third)[-1]["answer"] == [past.expected_answer()]


def test_command_by_age_applies_to_older_recalls(past: History) -> None:
    old, new = past.add_task(1), past.add_task(2)
    past.connection.execute(
        "UPDATE tasks SET created_at = created_at - interval '1 hour' WHERE id = %s", (old,)
    )
    with past.manager() as manager:
        number = submit_command(past.connection, "a", "cancel", Target(), "test", min_age=600.0)
        run_until(manager, lambda: past.task(new)["state"] == "done")
    assert past.task(old)["state"] == "cancelled"
    effect = fetch_effect(past.connection, number)
    assert effect is not None and effect.recalls == 1


def test_repeated_command_with_one_key_is_executed_once(past: History) -> None:
    task = past.add_task(1)
    with past.manager() as manager:
        run_until(manager, lambda: past.task(task)["next"] > 0)
        numbers = {
            submit_command(past.connection, "k", "accelerate", Target(task=str(task)), "test")
            for _ in range(20)
        }
        assert len(numbers) == 1
        run_until(manager, lambda: fetch_effect(past.connection, *numbers) is not None)
        assert (
            submit_command(past.connection, "k", "accelerate", Target(task=str(task)), "test")
            in numbers
        )
        with pytest.raises(CommandKeyConflict):
            submit_command(past.connection, "k", "cancel", Target(task=str(task)), "test")
        assert 800 < past.task(task)["tickets"] <= 1000


def test_query_of_cancelled_tasks_is_cancelled(
    past: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, ended = threading.Event(), threading.Event()

    def run_endlessly(engine: LocalEngine, queries: Sequence[PartialQuery]) -> Any:
        began.set()
        try:
            engine._duckdb.run(ENDLESS)
        finally:
            ended.set()

    monkeypatch.setattr(LocalEngine, "compute_partials", run_endlessly)
    task = past.add_task(1)
    with past.manager() as manager:
        run_until(manager, began.is_set)
        submit_command(past.connection, "k", "cancel", Target(task=str(task)), "test")
        run_until(manager, ended.is_set)
    assert past.task(task)["state"] == "cancelled"


@pytest.mark.slow
def test_recall_is_suspended_until_feedback(past: History) -> None:
    with_feedback, without_feedback = past.add_task(1, feedback=0.0), past.add_task(2)
    with past.manager() as manager:
        run_until(manager, lambda: past.task(without_feedback)["state"] == "done")
        suspended = past.task(with_feedback)
        assert (
            suspended["state"] == "suspended"
            and suspended["next"] - suspended["skipped"] == 1
            and suspended["deadline"] is not None
        )
        submit_command(past.connection, "k", "refine", Target(task=str(with_feedback)), "test")
        run_until(manager, lambda: past.task(with_feedback)["next"] > suspended["next"])
        assert past.task(with_feedback)["state"] == "suspended"
    assert len(past.revisions(with_feedback)) == 2


def test_feedback_timeout_finalizes_the_last_answer(past: History) -> None:
    with_feedback, other = past.add_task(1, feedback=0.0), past.add_task(2)
    with past.manager(policy=SchedulingPolicy(feedback_timeout=timedelta(seconds=0.1))) as manager:
        run_until(manager, lambda: past.task(with_feedback)["state"] == "finalized")
        run_until(manager, lambda: past.task(other)["state"] == "done")
    *_, last = past.revisions(with_feedback)
    assert last["final"] and last["coverage"]["partial"] and last["coverage"]["read"] == 1
    assert past.task(with_feedback)["error"] == "ended without feedback"


def test_feedback_deadline_survives_a_restart(past: History) -> None:
    task = past.add_task(1, feedback=0.0)
    with past.manager() as manager:
        run_until(manager, lambda: past.task(task)["state"] == "suspended")
    past.connection.execute("UPDATE tasks SET deadline = clock_timestamp()")
    with past.manager() as manager:
        run_until(manager, lambda: past.task(task)["state"] == "finalized")
