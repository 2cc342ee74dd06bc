"""Recalls that fail: invalid tasks, limits, time limits, and processes that crash."""

import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from recall.engines.duckdb.engine import LocalEngine
from recall.engines.template import PartialQuery
from recall.statements.statement import Statement
from recall.worker.active_tasks import MAX_ATTEMPTS
from tests.integration.history import COUNT, History, run_until

ENDLESS = Statement("SELECT count(*) FROM range(100000) a, range(100000) b, range(1000) c")


def test_invalid_task_fails_alone(past: History) -> None:
    """A removed stream, a request of another format: these fail, other tasks continue."""
    stream, shape, fine = (
        past.add_task(1, rule="g/stream"),
        past.add_task(2, rule="g/shape"),
        past.add_task(3),
    )
    past.connection.execute(
        """UPDATE tasks SET request = replace(request::text, 'past', 'gone')::jsonb WHERE id = %s""",
        (stream,),
    )
    past.connection.execute(
        "UPDATE tasks SET request = request || '{\"older\": 1}' WHERE id = %s", (shape,)
    )
    with past.manager() as manager:
        run_until(manager, lambda: past.task(fine)["state"] == "done")
    for task, reason in (stream, "gone"), (shape, "older"):
        assert past.task(task)["state"] == "failed" and reason in past.task(task)["error"]


def test_recall_that_repeatedly_exceeds_its_limits_is_quarantined(
    past: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recall.operators.limits.MAX_ROWS", 30)
    monkeypatch.setattr("recall.worker.claims._CHECK_INTERVAL", 0.0)
    groups = "SELECT h.ts AS t, count(*) AS n FROM past h GROUP BY h.ts"
    with past.manager() as manager:
        for number in range(1, 5):
            task = past.add_task(number, groups, rule="g/greedy")
            run_until(manager, lambda task=task: past.task(task)["state"] == "failed")
        fine = past.add_task(1, rule="g/fine")
        run_until(manager, lambda: past.task(fine)["state"] == "done")
    assert (
        "needed too much memory or time" in past.task(task)["error"]
        and past.task(task)["seconds"] == 0
    )


def test_query_over_its_time_limit_is_cancelled_and_fails(
    past: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compute_partials(engine: LocalEngine, queries: Sequence[PartialQuery]) -> Any:
        if any(query.template.question.sql != COUNT for query in queries):
            engine._duckdb.run(ENDLESS)
        return real(engine, queries)

    real = LocalEngine.compute_partials
    monkeypatch.setattr(LocalEngine, "compute_partials", compute_partials)
    monkeypatch.setattr("recall.worker.turn_recorder._PUT_OFF_DELAYS", (timedelta(seconds=0.1),))
    endless, fine = past.add_task(1, f"{COUNT} AND h.v > -1", rule="g/endless"), past.add_task(2)
    with past.manager(workers=2, query_timeout=0.3) as manager:
        run_until(manager, lambda: past.task(endless)["put_offs"])
        task = past.task(endless)
        assert task["retry_at"] is not None
        assert task["error"] == "history query cancelled after 0.3 s of work (recall.query_timeout)"
        run_until(manager, lambda: past.task(endless)["state"] == "failed")
        run_until(manager, lambda: past.task(fine)["state"] == "done")
    assert past.task(endless)["exceeded"]
    assert past.task(endless)["error"].startswith(
        "failed 4 times at one piece: needs too much time"
    )


def test_recall_that_was_put_off_is_answered_once_the_machine_is_fast_again(
    past: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_slow = True

    def compute_partials(engine: LocalEngine, queries: Sequence[PartialQuery]) -> Any:
        if is_slow:
            engine._duckdb.run(ENDLESS)
        return real(engine, queries)

    real = LocalEngine.compute_partials
    monkeypatch.setattr(LocalEngine, "compute_partials", compute_partials)
    monkeypatch.setattr("recall.worker.turn_recorder._PUT_OFF_DELAYS", (timedelta(seconds=0.1),))
    task = past.add_task(1, rule="g/slow")
    with past.manager(query_timeout=0.3) as manager:
        run_until(manager, lambda: past.task(task)["put_offs"])
        is_slow = False
        run_until(manager, lambda: past.task(task)["state"] == "done")
    answered = past.task(task)
    assert (answered["error"], answered["tries"], answered["put_offs"]) == (None, 0, 0)


def test_task_that_crashes_processes_fails_after_some_attempts(
    past: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, end = threading.Event(), threading.Event()

    def compute_partials(engine: LocalEngine, queries: Sequence[PartialQuery]) -> Any:
        if all(query.template.question.sql == COUNT for query in queries):
            return real(engine, queries)
        began.set()
        end.wait(60)
        return [{} for _ in queries]

    real = LocalEngine.compute_partials
    monkeypatch.setattr(LocalEngine, "compute_partials", compute_partials)
    deadly = past.add_task(1, f"{COUNT} AND h.v > -1")
    for _ in range(MAX_ATTEMPTS):
        began.clear()
        with past.manager() as crashing:
            run_until(crashing, began.is_set)
    fine = past.add_task(2)
    with past.manager() as manager:
        run_until(
            manager,
            lambda: past.task(fine)["state"] == "done" and past.task(deadly)["state"] == "failed",
        )
    end.set()
    assert past.task(deadly)["exceeded"] and past.task(deadly)["tries"] == 0
    assert past.task(fine)["fence"] == 1


def test_tasks_of_killed_processes_are_attempted_first(past: History) -> None:
    """So a task progresses before the next kill, and does not fail for being present at three
    kills.
    """
    tasks = [past.add_task(number, f"{COUNT} AND h.v > -{number}") for number in range(1, 9)]
    with past.manager() as manager:
        run_until(manager, lambda: all(past.task(task)["revision"] for task in tasks))
    unlucky = {tasks[5]: 2, tasks[2]: 1}
    for task, tries in unlucky.items():
        past.connection.execute(
            "UPDATE tasks SET state = 'waiting', tries = %s WHERE id = %s", (tries, task)
        )
    before = {task: past.task(task)["next"] for task in tasks}
    past.connection.execute(
        "UPDATE tasks SET state = 'waiting', lease = NULL WHERE state = 'running'"
    )
    with past.manager() as manager:
        for task in unlucky:
            run_until(
                manager, lambda: any(past.task(other)["next"] > before[other] for other in tasks)
            )
            assert [other for other in tasks if past.task(other)["next"] > before[other]] == [task]
            assert past.task(task)["tries"] == 0
            before[task] = past.task(task)["next"]
