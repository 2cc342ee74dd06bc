"""Tasks that need the same history at the same time share one query, and do not affect each other."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from recall.engines.duckdb.engine import LocalEngine
from recall.engines.template import PartialQuery
from recall.errors import LimitExceeded
from recall.ledger.tasks import SchedulingPolicy
from recall.requests import Piece
from tests.integration.history import COUNT, History, run_until


def test_equal_tasks_share_one_query(past: History, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifty alerts of four hosts, two rules with equal SQL: pieces are read once for each host."""
    read: list[tuple[str, Piece]] = []
    real = LocalEngine.compute_partials

    def together(engine: LocalEngine, asks: Sequence[PartialQuery]) -> Any:
        read.extend(
            (asked.attributes["host"], piece) for one in asks for asked, piece in one.event_pieces
        )
        return real(engine, asks)

    monkeypatch.setattr(LocalEngine, "compute_partials", together)
    tasks = [
        past.add_task(number, host=number % 4, rule=f"g/r{number % 2}") for number in range(1, 51)
    ]
    with past.manager() as manager:
        run_until(manager, lambda: all(past.task(task)["state"] == "done" for task in tasks))
        piece_count = len(past.task(tasks[0])["pieces"])
        assert len(read) == len(set(read)) <= 4 * piece_count
        before = len(read)
        later = past.add_task(51, host=1)
        run_until(manager, lambda: past.task(later)["state"] == "done")
        assert len(read) - before < piece_count
    for number, task in enumerate(tasks, start=1):
        assert past.revisions(task)[-1]["answer"] == [past.expected_answer(number % 4)]
    assert past.revisions(later)[-1]["answer"] == [past.expected_answer(1)]


@pytest.mark.slow
def test_tasks_of_one_chunk_share_one_scan(past: History, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten rules with different SQL: after their first answers, one scan serves all of them."""
    scans: list[int] = []
    real = LocalEngine.compute_partials

    def together(engine: LocalEngine, asks: Sequence[PartialQuery]) -> Any:
        scans.append(len(asks))
        return real(engine, asks)

    monkeypatch.setattr(LocalEngine, "compute_partials", together)
    tasks = [
        past.add_task(n, f"{COUNT} AND h.v >= {n} - 1 - {n}", host=n % 4, rule=f"g/r{n}")
        for n in range(10)
    ]
    with past.manager(policy=SchedulingPolicy(tickets_per_result=0)) as manager:
        run_until(manager, lambda: all(past.task(task)["state"] == "done" for task in tasks))
    pieces = sum(len(past.task(task)["pieces"]) - past.task(task)["skipped"] for task in tasks)
    assert sum(scans) == pieces and max(scans) == len(tasks)
    assert scans.count(1) <= len(tasks) + 2 and len(scans) < pieces / 3
    for number, task in enumerate(tasks):
        assert past.revisions(task)[-1]["answer"] == [past.expected_answer(number % 4)]


def test_failing_task_does_not_fail_tasks_of_its_query(
    past: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One task of a scan exceeds its limit from the third piece on; the others are answered."""
    greedy = f"{COUNT} AND h.v > -1"
    read: list[int] = []
    real = LocalEngine.compute_partials

    def together(engine: LocalEngine, asks: Sequence[PartialQuery]) -> Any:
        if any(one.template.question.sql == greedy for one in asks):
            read.append(len(asks))
            if len(read) > 2:
                raise LimitExceeded("too many groups")
        return real(engine, asks)

    monkeypatch.setattr(LocalEngine, "compute_partials", together)
    wrong = past.add_task(1, greedy, rule="g/greedy")
    tasks = [
        past.add_task(n, f"{COUNT} AND h.v >= {n} - 1 - {n}", host=n % 4, rule=f"g/r{n}")
        for n in range(2, 6)
    ]
    with past.manager(policy=SchedulingPolicy(tickets_per_result=0)) as manager:
        run_until(
            manager,
            lambda: all(past.task(task)["state"] in ("done", "failed") for task in (wrong, *tasks)),
        )
    assert (
        past.task(wrong)["exceeded"]
        and "too many groups" in past.task(wrong)["error"]
        and max(read) > 1
    )
    for number, task in enumerate(tasks, start=2):
        assert past.revisions(task)[-1]["answer"] == [past.expected_answer(number % 4)]


def test_tasks_without_a_first_answer_are_not_read_together(
    past: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if tasks with equal SQL are read together with other SQL."""
    waiting: list[int] = []
    real = LocalEngine.compute_partials

    def together(engine: LocalEngine, asks: Sequence[PartialQuery]) -> Any:
        if len(asks) > 1:
            events = [asked.eid for one in asks for asked, _ in one.event_pieces]
            unanswered = "SELECT count(*) FROM tasks WHERE eid = ANY(%s) AND revision = 0"
            waiting.append(past.connection.execute(unanswered, (events,)).fetchall()[0][0])
        return real(engine, asks)

    monkeypatch.setattr(LocalEngine, "compute_partials", together)

    def ask(first: int) -> list[UUID]:
        return [
            past.add_task(
                first + n, f"{COUNT} AND h.v > -{n % 4 + 1}", host=n % 4, rule=f"g/r{n % 4}"
            )
            for n in range(8)
        ]

    tasks = ask(1)
    with past.manager(policy=SchedulingPolicy(tickets_per_result=0)) as manager:
        run_until(manager, lambda: len(waiting) > 0)
        tasks += ask(20)
        run_until(manager, lambda: all(past.task(task)["state"] == "done" for task in tasks))
    assert not any(waiting) and len(waiting) > 5


def test_background_task_finishes_when_all_pieces_are_read(past: History) -> None:
    """One with all pieces excluded by summaries, another with the newest piece excluded."""
    tasks = [
        past.add_task(n, f"{COUNT} AND h.v > -{n}", host=99, rule=f"g/r{n}") for n in (1, 2, 3)
    ]
    past.connection.execute("UPDATE tasks SET level = 1")
    with past.manager() as manager:
        manager._claimer.claim(1)
        manager._recorder.pin_planned()
        for task in tasks[:2]:
            active_task = manager._active_tasks.tasks[task]
            done = len(active_task.pieces)
            progress = replace(active_task.progress, next=done, skipped=done)
            manager._active_tasks.update(active_task, progress)
        skipped = "next = jsonb_array_length(pieces), skipped = jsonb_array_length(pieces)"
        past.connection.execute(f"UPDATE tasks SET {skipped} WHERE id = ANY(%s)", (tasks[:2],))
        run_until(manager, lambda: all(past.task(task)["state"] == "done" for task in tasks))


def test_two_recalls_of_one_event_with_equal_sql_both_get_the_answer(past: History) -> None:
    first, second = past.add_task(1, rule="g/a"), past.add_task(1, rule="g/b")
    assert past.task(first)["eid"] == past.task(second)["eid"]
    with past.manager() as manager:
        run_until(
            manager, lambda: past.task(first)["state"] == "done" == past.task(second)["state"]
        )
    assert (
        past.revisions(first)[-1]["answer"]
        == past.revisions(second)[-1]["answer"]
        == [past.expected_answer()]
    )
