"""kill -9 of recall processes that hold parts of a corpus: answers are those of one process."""

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import pytest

import recall.worker.manager
from tests.integration.history import History, history, run_until
from tests.integration.test_corpus_parts import (
    _CHUNKS,
    _ROWS,
    _add_tasks,
    _answers,
    _corpus_bytes,
    _held_parts,
    _read_answers,
    _settle_events,
)

SEED = int(os.environ.get("MOIRAE_FAULT_SEED", "1"))
KILLS = int(os.environ.get("MOIRAE_FAULT_KILLS", "5"))
PROCESSES = 2


@pytest.fixture
def past(monkeypatch: pytest.MonkeyPatch) -> Iterator[History]:
    monkeypatch.setattr(recall.worker.manager, "_PARTS_INTERVAL", 0.02)
    with history(chunks=_CHUNKS, rows=_ROWS) as new_history:
        _settle_events(new_history)
        yield new_history


def _start(past: History, number: int, max_bytes: int) -> subprocess.Popen[bytes]:
    file = str(Path(past.settings.file))
    command = [sys.executable, "-m", "tests.faults.part_worker", file, f"recall {number}"]
    return subprocess.Popen([*command, str(max_bytes)])


def _await(is_reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not is_reached():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _await_answers(past: History, tasks: list[UUID]) -> None:
    _await(lambda: all(past.task(task)["state"] == "done" for task in tasks))


@pytest.mark.faults
@pytest.mark.timeout(1800)
def test_killed_holders_of_parts_change_no_answer(past: History) -> None:
    rng = random.Random(SEED)
    with past.manager() as manager:
        expected = _answers(past, [manager])
    max_bytes = _corpus_bytes(past) * 6 // 10
    processes = {number: _start(past, number, max_bytes) for number in range(PROCESSES)}
    try:
        # They load the corpus for the tasks, and hold it after them.
        for kill in range(KILLS):
            past.connection.execute("TRUNCATE tasks, unsettled_reads, revisions")
            tasks = _add_tasks(past)
            if kill:
                time.sleep(rng.random() * 0.5)
            else:
                _await(lambda: len(_held_parts(past).keys() - {None}) == PROCESSES)
            victim = rng.randrange(PROCESSES)
            processes[victim].kill()
            processes[victim].wait()
            processes[victim] = _start(past, victim, max_bytes)
            _await_answers(past, tasks)
            assert _read_answers(past, tasks) == expected
            _await(lambda: len(_held_parts(past).keys() - {None}) == PROCESSES)
    finally:
        for process in processes.values():
            process.kill()
            process.wait()
    with past.manager(corpus_memory=("recall 9", max_bytes)) as manager:
        run_until(manager, lambda: "recall 9" in _held_parts(past))
