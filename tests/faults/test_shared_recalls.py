"""Two recall processes: one is frozen beyond its lease, or killed; no task is lost or done twice."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import pytest

from recall.ledger.tasks import LEASE_DURATION
from tests.faults.recalling import Recaller
from tests.integration.history import COUNT, History, history

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1500)]

_TASKS = 6


@pytest.fixture(scope="module")
def past() -> Iterator[History]:
    with history(chunks=25, rows=20) as new_history:
        yield new_history


@contextmanager
def _process(past: History) -> Iterator[Recaller]:
    recaller = Recaller(Path(past.settings.file))
    try:
        yield recaller
    finally:
        recaller.kill()


def _until(holds: Callable[[], bool], *processes: Recaller, seconds: float = 400.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it does not get there"
        for process in processes:
            process.look()
        time.sleep(0.05)


def _add_tasks(past: History) -> list[UUID]:
    """Tasks that differ, so that none is answered with another's pieces."""
    past.connection.execute("TRUNCATE tasks, unsettled_reads, revisions, commands")
    return [
        past.add_task(
            number, f"{COUNT} AND h.v >= {number} - {number}", rule=f"g/r{number}", host=number % 4
        )
        for number in range(1, _TASKS + 1)
    ]


def _read(past: History) -> int:
    row = past.connection.execute("SELECT coalesce(sum(next), 0) FROM tasks").fetchone()
    assert row is not None
    return int(row[0])


def _check(past: History, tasks: list[UUID]) -> None:
    for number, task in enumerate(tasks, start=1):
        assert past.task(task)["state"] == "done"
        revisions = past.revisions(task)
        assert [one["number"] for one in revisions] == list(range(1, len(revisions) + 1))
        assert [one["final"] for one in revisions] == [False] * (len(revisions) - 1) + [True]
        assert revisions[-1]["answer"] == [past.expected_answer(number % 4)]


def _ended(past: History, tasks: list[UUID]) -> bool:
    query = "SELECT count(*) FROM tasks WHERE state IN ('waiting', 'running') AND id = ANY(%s)"
    return past.connection.execute(query, (tasks,)).fetchone() == (0,)


@pytest.mark.parametrize("waits", [False, True])
def test_frozen_recall_process_loses_its_tasks_without_effect_on_answers(
    past: History, waits: bool
) -> None:
    """Frozen for three leases; or its lease is ended in the database, which is faster."""
    tasks = _add_tasks(past)
    with _process(past) as frozen:
        _until(lambda: _read(past) > _TASKS, frozen)
        frozen.send(signal.SIGSTOP)
        with _process(past) as other:
            if waits:
                time.sleep(3 * LEASE_DURATION.total_seconds())
            else:
                past.connection.execute(
                    "UPDATE tasks SET lease_until = clock_timestamp() WHERE state = 'running'"
                )
            _until(lambda: _ended(past, tasks), other)
            frozen.send(signal.SIGCONT)
            time.sleep(0.5)
        _check(past, tasks)
        assert any(past.task(task)["fence"] >= 2 for task in tasks)


@pytest.mark.parametrize("kills", [1, 20])
def test_killed_recall_process_is_replaced_by_the_other(past: History, kills: int) -> None:
    taken = 0
    for number in range(kills):
        over = _kill_one(past, _add_tasks(past))
        taken += over > 0
        print(f"kill {number + 1}: {over} tasks taken over", flush=True)
    assert taken >= kills // 4, "few kills met a process that had tasks"


def _kill_one(past: History, tasks: list[UUID]) -> int:
    """How many tasks another process took over."""
    with _process(past) as one, _process(past) as other:
        _until(lambda: _read(past) > _TASKS, one, other)
        one.kill()
        _until(lambda: _ended(past, tasks), other)
    _check(past, tasks)
    return sum(past.task(task)["fence"] > 1 for task in tasks)
