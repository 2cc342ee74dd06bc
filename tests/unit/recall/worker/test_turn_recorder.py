"""What becomes of active tasks when their turns are recorded."""

import ast
import json
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

import recall.worker
from recall.ledger.records import Revision, Task, TaskProgress, TurnResult
from recall.requests import compute_coverage
from recall.scheduling.statistics import TurnStatistics
from recall.scheduling.stride import StrideScheduler
from recall.worker.active_tasks import MAX_ATTEMPTS, ActiveTask, ActiveTasks, TurnTask
from recall.worker.metrics import RecallMetrics
from recall.worker.turn_recorder import TurnRecorder
from tests.unit.recall.worker.test_active_tasks import active_task

TASK_ID = UUID(int=1)
WORKER = Path(recall.worker.__file__).parent
# The methods of the ledger that change claimed tasks, or what is known of their alerts.
LEDGER_WRITES = {
    "advance",
    "add_delay",
    "count_failed_attempt",
    "defer",
    "lock_tasks",
    "mark_query_started",
    "pin_pieces",
    "put_off",
}


class FakeConnection:
    """`stored`: the figures of turns."""

    def __init__(self) -> None:
        self.stored: list[Any] = []

    def transaction(self) -> Any:
        return nullcontext()

    def execute(self, statement: str, values: dict[str, str]) -> None:
        self.stored += json.loads(values["rows"])


@dataclass
class FakeLedger:
    """Accepts every result; `state`: the next state of the task, None: it is lost."""

    state: str | None = "running"
    error: Exception | None = None
    results: list[TurnResult] = field(default_factory=list)
    deferred: list[UUID] = field(default_factory=list)
    put_offs: list[timedelta] = field(default_factory=list)
    started: list[UUID] = field(default_factory=list)
    pinned: list[tuple[UUID, bool]] = field(default_factory=list)

    def advance(self, task: Task, result: TurnResult) -> tuple[str, TaskProgress] | None:
        if self.error is not None and result.state != "failed":
            raise self.error
        self.results.append(result)
        if self.state is None:
            return None
        revision = task.progress.revision + (result.revision is not None)
        progress = replace(
            task.progress,
            next=result.next,
            revision=revision,
            tries=0,
            tickets=90,
            statistics=task.progress.statistics.add(result.statistics),
        )
        return self.state, progress

    def defer(self, tasks: list[UUID]) -> None:
        self.deferred += tasks

    def count_failed_attempt(self, tasks: list[UUID], error: str, timed_out: bool) -> None:
        """Counted in the database."""

    def put_off(self, task: Task, delay: timedelta) -> None:
        self.put_offs.append(delay)

    def mark_query_started(self, tasks: list[UUID]) -> None:
        self.started += tasks

    def pin_pieces(self, task: Task, started: bool = False) -> None:
        self.pinned.append((task.id, started))


class Setup:
    def __init__(self, ledger: FakeLedger, **changes: Any) -> None:
        self.ledger = ledger
        self.tasks = ActiveTasks(StrideScheduler())
        self.before = active_task(**changes)
        self.tasks.add(self.before)
        self.connection = FakeConnection()
        self.recorder = TurnRecorder(self.connection, ledger, self.tasks, RecallMetrics())  # type: ignore[arg-type]

    @property
    def now(self) -> ActiveTask | None:
        return self.tasks.tasks.get(TASK_ID)

    def record(self, result: TurnResult) -> list[Task]:
        return self.recorder.record([TurnTask(self.before, result.next)], [result])


def result(revision: bool = False, **changes: Any) -> TurnResult:
    coverage = compute_coverage([], 0, 0)
    turn_result = TurnResult(
        next=2,
        failed=0,
        partial_answer=None,
        statistics=TurnStatistics(pieces=2, rows=1, results=1, seconds=0.5, query_seconds=1.0),
        state="running",
        revision=Revision(coverage, []) if revision else None,
    )
    return replace(turn_result, **changes)


def test_recorded_turn_moves_the_task_and_frees_it() -> None:
    setup = Setup(FakeLedger())
    setup.recorder.begin_query([setup.before.spec])
    assert setup.now is not None and setup.now.is_busy
    assert setup.record(result(has_improved=True)) == []
    assert setup.now is not None
    assert (setup.now.progress.next, setup.now.progress.tickets) == (2, 90)
    assert setup.now.progress.statistics.query_seconds_per_piece == 0.5
    assert setup.now.has_improved
    assert not setup.now.is_busy
    assert setup.before.progress.next == 0
    setup.recorder.store_flows()
    setup.recorder.store_flows()
    (flow,) = setup.connection.stored
    assert (flow["kind"], flow["rows"], flow["results"], flow["seconds"]) == ("recall", 1, 1, 0.5)


def test_pieces_are_stored_once_with_the_first_query_or_without_one() -> None:
    setup = Setup(FakeLedger())
    task = setup.before.task
    skipped = replace(task, progress=replace(task.progress, skipped=1))
    assert setup.recorder.plan_pieces(skipped).progress.next == 1
    setup.recorder.begin_query([task.spec])
    setup.recorder.pin_planned()
    setup.recorder.begin_query([task.spec])
    assert setup.ledger.pinned == [(TASK_ID, True)]
    assert setup.ledger.started == [TASK_ID]
    setup.recorder.plan_pieces(task)
    setup.recorder.pin_planned()
    setup.recorder.pin_planned()
    assert setup.ledger.pinned == [(TASK_ID, True), (TASK_ID, False)]


@pytest.mark.parametrize(
    ("state", "has_ended"), [("done", True), ("failed", True), ("suspended", False), (None, False)]
)
def test_task_that_does_not_run_any_more_is_dropped(state: str | None, has_ended: bool) -> None:
    setup = Setup(FakeLedger(state))
    ended = setup.record(result())
    assert [task.id for task in ended] == ([TASK_ID] if has_ended else [])
    assert setup.now is None


def test_result_under_an_earlier_claim_is_ignored() -> None:
    setup = Setup(FakeLedger())
    claimed_again = active_task(fence=9)
    setup.tasks.add(claimed_again)
    assert setup.record(result()) == []
    assert setup.ledger.results == []
    assert setup.now is claimed_again


def test_answered_task_makes_room_for_first_answers() -> None:
    setup = Setup(FakeLedger())
    setup.tasks.has_backlog = True
    setup.record(result())
    assert setup.now is not None
    setup.record(result(revision=True))
    assert setup.ledger.deferred == [TASK_ID]
    assert setup.now is None


def test_answer_that_cannot_be_stored_fails_the_task() -> None:
    setup = Setup(FakeLedger(error=ValueError("no JSON")))
    assert setup.record(result(revision=True)) == []
    (failure,) = setup.ledger.results
    assert failure.error == "cannot store the answer: no JSON"
    assert setup.now is None


def test_task_with_too_many_failed_attempts_fails_when_it_is_requeued() -> None:
    setup = Setup(FakeLedger(), tries=MAX_ATTEMPTS - 2)
    setup.recorder.count_lost_engine([TASK_ID], "history query")
    setup.recorder.requeue([setup.before.spec])
    assert setup.now is not None
    setup.recorder.count_timeout([TASK_ID], "history query", 20.0)
    setup.recorder.requeue([setup.before.spec])
    (failure,) = setup.ledger.results
    assert failure.exceeded
    assert failure.error == (
        "failed 3 times at one piece: needs too much memory or time; "
        "last: history query cancelled after 20 s of work (recall.query_timeout)"
    )
    assert setup.now is None


def test_task_that_failed_by_time_only_is_put_off_longer_each_time_then_fails() -> None:
    ledger = FakeLedger()
    for put_offs in range(4):
        setup = Setup(ledger, tries=MAX_ATTEMPTS - 1, timeouts=MAX_ATTEMPTS - 1, put_offs=put_offs)
        setup.recorder.count_timeout([TASK_ID], "history query", 20.0)
        setup.recorder.requeue([setup.before.spec])
        assert setup.now is None
    assert ledger.put_offs == sorted(ledger.put_offs)
    assert len(ledger.put_offs) == 3
    (failure,) = ledger.results
    assert failure.error is not None
    assert failure.error.startswith("failed 6 times at one piece: needs too much time; last: ")


def test_only_the_recorder_changes_claimed_tasks_in_the_ledger() -> None:
    writers = set()
    for path in WORKER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            is_write = isinstance(node, ast.Attribute) and node.attr in LEDGER_WRITES
            if is_write and ast.unparse(node.value).endswith("ledger"):
                writers.add(path.name)
    assert writers == {"turn_recorder.py"}


def test_history_queries_take_and_return_values() -> None:
    """They run in worker threads: nothing that they import can change a task or its state."""
    imported: dict[str, set[str]] = {}
    for node in ast.walk(ast.parse((WORKER / "history_queries.py").read_text())):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            imported[node.module] = {alias.name for alias in node.names}
    assert imported["recall.ledger"] == {"Revision", "TurnResult"}
    assert imported["recall.worker.active_tasks"] == {"TurnTask"}
    assert not imported.keys() & {"sql", "recall.worker.turn_recorder"}
