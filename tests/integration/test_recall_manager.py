"""The recall manager over a history in chunks: tasks of one manager or several, to their end."""

import threading
from collections.abc import Sequence
from typing import Any

import pytest
from psycopg.errors import DeadlockDetected

from recall.engines.duckdb.engine import LocalEngine
from recall.engines.template import PartialQuery
from recall.ledger.tasks import retry_on_deadlock
from tests.integration.history import History, run_until


def test_revisions_extend_coverage_until_final(past: History) -> None:
    tasks = [past.add_task(number, host=number % 4) for number in range(1, 5)]
    with past.manager(workers=2) as manager:
        run_until(manager, lambda: all(past.task(task)["state"] == "done" for task in tasks))
    for number, task in enumerate(tasks, start=1):
        revisions = past.revisions(task)
        assert [revision["number"] for revision in revisions] == list(range(1, len(revisions) + 1))
        assert revisions[-1]["answer"] == [past.expected_answer(number % 4)]
        assert revisions[-1]["coverage"]["final"] and not revisions[0]["coverage"]["final"]


def test_recall_without_history_is_answered(past: History) -> None:
    task = past.add_task(1)
    past.connection.execute("UPDATE tasks SET event = jsonb_set(event, '{ts}', '0')")
    past.connection.execute("UPDATE tasks SET pieces = '[]'")
    with past.manager() as manager:
        run_until(manager, lambda: past.task(task)["state"] == "done")
    (revision,) = past.revisions(task)
    assert revision["answer"] == [{"n": 0, "total": None}]


def test_two_managers_read_each_piece_once(past: History) -> None:
    tasks = [past.add_task(number, host=number % 4) for number in range(1, 7)]
    past.connection.execute("UPDATE tasks SET tickets = 1 WHERE id = %s", (tasks[0],))
    with past.manager() as first, past.manager() as second:
        first.run_once()
        late = past.add_task(7, host=3)
        run_until(second, lambda: past.task(late)["state"] == "done")
        assert past.task(tasks[0])["state"] == "running"
        run_until(first, lambda: all(past.task(task)["state"] == "done" for task in tasks))
    for number, task in enumerate([*tasks, late], start=1):
        assert past.revisions(task)[-1]["answer"] == [past.expected_answer(number % 4)]


def test_another_manager_resumes_tasks_of_a_dead_one(past: History) -> None:
    task = past.add_task(1)
    with past.manager() as first:
        run_until(first, lambda: past.task(task)["next"] >= 4)
    with past.manager() as second:
        run_until(second, lambda: past.task(task)["state"] == "done")
    assert past.revisions(task)[-1]["answer"] == [past.expected_answer()]
    assert past.task(task)["fence"] == 2


def test_manager_resumed_after_its_lease_loses_its_task(past: History) -> None:
    task = past.add_task(1)
    with past.manager() as frozen, past.manager() as other:
        run_until(frozen, lambda: past.task(task)["next"] >= 4)
        read = past.task(task)["next"]
        past.connection.execute(
            "UPDATE tasks SET lease_until = clock_timestamp() - interval '1 second'"
        )
        run_until(other, lambda: past.task(task)["fence"] == 2 and past.task(task)["next"] > read)
        before = past.task(task)
        for _ in range(3):
            frozen.run_once()
            frozen.wait_for_query()
        assert (
            past.task(task)["lease"] == before["lease"]
            and past.task(task)["fence"] == before["fence"]
        )
        run_until(other, lambda: past.task(task)["state"] == "done")
    assert past.revisions(task)[-1]["answer"] == [past.expected_answer()]


def test_orderly_shutdown_charges_no_task(past: History, monkeypatch: pytest.MonkeyPatch) -> None:
    began, end = threading.Event(), threading.Event()

    def compute_partials(engine: LocalEngine, queries: Sequence[PartialQuery]) -> Any:
        began.set()
        end.wait(60)
        return [{} for _ in queries]

    monkeypatch.setattr(LocalEngine, "compute_partials", compute_partials)
    task = past.add_task(1)
    with past.manager() as manager:
        run_until(manager, began.is_set)
        assert past.task(task)["asked_at"] is not None
        stop = threading.Event()
        stop.set()
        manager.run(stop, lambda _: None)
    end.set()
    released = past.task(task)
    assert (released["state"], released["tries"], released["asked_at"]) == ("waiting", 0, None)


def test_transaction_aborted_by_a_deadlock_is_retried() -> None:
    tries: list[int] = []

    def change() -> int:
        tries.append(1)
        if len(tries) == 1:
            raise DeadlockDetected
        return len(tries)

    assert retry_on_deadlock(change) == 2
