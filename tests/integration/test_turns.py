"""Turns of the recall manager: which tasks run, and how much of a history in chunks a turn reads."""

import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

import recall.worker.comparisons
from archiver.times import to_micros
from recall.engines.duckdb.engine import LocalEngine
from recall.engines.template import PartialQuery
from recall.ledger.tasks import Ledger, SchedulingPolicy
from recall.requests import Piece, RecallEvent, RecallRequest, SimilarQuestion, task_id
from recall.scheduling.concurrency import CpuTimes
from recall.similarity.answer import SimilarState
from recall.similarity.index import Index
from recall.similarity.measures.measure import TfIdfMeasure
from tests.integration.history import CHUNKS, COUNT, START, History, run_until


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[list[tuple[UUID, Piece]]]:
    """What each query has read, and for whom."""
    pieces_by_query: list[list[tuple[UUID, Piece]]] = []
    real = LocalEngine.compute_partials

    def together(engine: LocalEngine, asks: Sequence[PartialQuery]) -> Any:
        pieces_by_query.append(
            [(asked.eid, piece) for one in asks for asked, piece in one.event_pieces]
        )
        return real(engine, asks)

    monkeypatch.setattr(LocalEngine, "compute_partials", together)
    return pieces_by_query


def _done(past: History, tasks: Sequence[UUID]) -> bool:
    return all(past.task(task)["state"] == "done" for task in tasks)


class _Busy:
    """Others take the whole machine."""

    def __init__(self) -> None:
        self._looks = 0

    def __call__(self) -> CpuTimes:
        self._looks += 1
        return CpuTimes(1000 * self._looks, 1000 * self._looks)


@pytest.mark.parametrize(("least", "expected"), [(1, 1), (None, 2)])
def test_busy_machine_runs_fewer_concurrent_queries(
    past: History, monkeypatch: pytest.MonkeyPatch, least: int | None, expected: int
) -> None:
    """Down to the minimum of the workspace; if that is the number of engines, all are used."""
    lock, under_way, most = threading.Lock(), 0, 0
    real = LocalEngine.compute_partials

    def together(engine: LocalEngine, asks: Sequence[PartialQuery]) -> Any:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        time.sleep(0.02)
        try:
            return real(engine, asks)
        finally:
            with lock:
                under_way -= 1

    monkeypatch.setattr(LocalEngine, "compute_partials", together)
    monkeypatch.setattr("recall.worker.load._read_cpu_times", _Busy())
    tasks = [past.add_task(n, f"{COUNT} AND h.v > -{n}", rule=f"g/r{n}") for n in range(1, 5)]
    with past.manager(workers=2, min_queries=least) as manager:
        run_until(manager, lambda: _done(past, tasks))
    assert most == expected


def test_only_task_reads_many_pieces_per_turn(
    past: History, reads: list[list[tuple[UUID, Piece]]]
) -> None:
    task = past.add_task(1)
    with past.manager() as manager:
        run_until(manager, lambda: _done(past, [task]))
    assert len(past.task(task)["pieces"]) >= CHUNKS and len(reads) <= CHUNKS / 2
    assert past.revisions(task)[-1]["answer"] == [past.expected_answer()]


def test_competing_tasks_read_a_small_part_per_turn(
    past: History, reads: list[list[tuple[UUID, Piece]]]
) -> None:
    """One piece, and later no more than an eighth of what each has read already.

    Those with equal tickets would read in step, and share scans of many pieces.
    """
    tasks = [past.add_task(n, f"{COUNT} AND h.v > -{n}", rule=f"g/r{n}") for n in (1, 2)]
    past.connection.execute("UPDATE tasks SET tickets = tickets * 2 WHERE id = %s", (tasks[1],))
    with past.manager(policy=SchedulingPolicy(tickets_per_result=0)) as manager:
        run_until(manager, lambda: _done(past, tasks))
    pieces = {Piece.from_json(piece) for piece in past.task(tasks[0])["pieces"]}
    first, second = (
        [piece for query in reads for eid, piece in query if eid == UUID(int=number)]
        for number in (1, 2)
    )
    # The second one has twice the turns: once it has ended, the first one reads many pieces.
    assert set(first[:8]) <= pieces
    assert set(second[:16]) <= pieces
    assert len(second) == len(set(second)) >= 16 + (CHUNKS - 16) / 2


def test_comparisons_of_one_rule_share_a_pass_over_each_run_of_pieces(
    past: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[int] = []
    real = recall.worker.comparisons.compare

    def compare(
        index: Index, states: Sequence[SimilarState], *arguments: Any
    ) -> list[tuple[int, bool]]:
        passes.append(len(states))
        return real(index, states, *arguments)

    monkeypatch.setattr(recall.worker.comparisons, "compare", compare)
    question = SimilarQuestion(None, 0.0, "newest", ("processes",), 3, TfIdfMeasure.name, 0)
    end = to_micros(START + timedelta(seconds=len(past.rows)))
    events = [RecallEvent(UUID(int=number), end, {}, {}) for number in range(1, 51)]
    Ledger(past.connection).add(
        [RecallRequest("g/r", "1", "similar", question, event, 0) for event in events]
    )
    tasks = [task_id("g/r", "1", "similar", event.eid) for event in events]
    # Nothing is alike here: that is not looked at beforehand.
    monkeypatch.setattr(
        SimilarState,
        "pieces_without_matches",
        lambda _, spans: [False] * len(spans),
    )
    with past.manager() as manager:
        run_until(manager, lambda: _done(past, tasks))
    assert set(passes) == {len(tasks)}
    assert len(passes) <= 4, "1, 6, and the others"


def test_task_with_long_interval_publishes_first_and_final_revision(past: History) -> None:
    often, seldom = past.add_task(1), past.add_task(2, f"{COUNT} AND h.v > -1", every=3600.0)
    with past.manager() as manager:
        run_until(manager, lambda: _done(past, [often, seldom]))
    assert len(past.revisions(often)) > 2
    first, last = past.revisions(seldom)
    assert (first["number"], first["coverage"]["read"], first["coverage"]["final"]) == (1, 1, False)
    assert (last["number"], last["coverage"]["left"], last["coverage"]["final"]) == (2, 0, True)
    assert last["answer"] == [past.expected_answer()]
