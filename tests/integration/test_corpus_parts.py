"""Similarity recalls over several recall processes, each of which holds parts of the corpus."""

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from psycopg.types.json import Jsonb

import recall.corpora
import recall.worker.manager
import recall.worker.part_comparisons
from archiver.times import to_micros
from recall.corpora import Corpora
from recall.ledger.tasks import Ledger
from recall.requests import RecallEvent, RecallRequest, SimilarQuestion, task_id
from recall.worker.manager import RecallManager
from recall.worker.part_comparisons import PartComparisons
from sql.similarity import PartGateway
from tests.integration.history import START, History, history, run_until

_CHUNKS, _ROWS = 8, 20
_EVENTS = 150
_QUESTION = SimilarQuestion(None, 0.0, "newest", contexts=("own",), k=10, measure="tfidf", gap=0)


@pytest.fixture(scope="module")
def _history() -> Iterator[History]:
    with history(chunks=_CHUNKS, rows=_ROWS) as new_history:
        _settle_events(new_history)
        yield new_history


@pytest.fixture
def past(_history: History, monkeypatch: pytest.MonkeyPatch) -> History:
    monkeypatch.setattr(recall.corpora, "_SAVE_MIN_EVENTS", 10)
    monkeypatch.setattr(recall.worker.manager, "_PARTS_INTERVAL", 0.02)
    _history.connection.execute(
        "TRUNCATE tasks, unsettled_reads, revisions, commands, corpus_parts"
    )
    return _history


def _settle_events(past: History) -> None:
    rng = random.Random(5)
    for number in range(1, _EVENTS + 1):
        words = {min(int(rng.paretovariate(0.6)), 40) for _ in range(6)}
        rows = [{"t": f"w{word}"} for word in words for _ in range(rng.choice([1, 1, 2]))]
        past.connection.execute(
            "INSERT INTO contexts (rule, version, eid, ts, contexts, surroundings, settled, corpus)"
            " VALUES ('g/r', '1', %s, %s, %s, '{}', true, %s)",
            (UUID(int=number), _time_of(number), Jsonb({"own": rows}), number),
        )


def _time_of(number: int) -> Any:
    return START + timedelta(seconds=number)


def _add_tasks(past: History) -> list[UUID]:
    """About the newest events, and an older one."""
    tasks = []
    for number in (*range(_EVENTS - 4, _EVENTS + 1), _EVENTS // 2):
        event = RecallEvent(UUID(int=number), to_micros(_time_of(number)), {}, {})
        Ledger(past.connection).add([RecallRequest("g/r", "1", "similar", _QUESTION, event, 0)])
        tasks.append(task_id("g/r", "1", "similar", event.eid))
    return tasks


def _answers(past: History, managers: list[RecallManager]) -> list[list[tuple[str, float]]]:
    """The hits of all tasks, in full."""
    past.connection.execute("TRUNCATE tasks, unsettled_reads, revisions")
    tasks = _add_tasks(past)
    _run(managers, lambda: all(past.task(task)["state"] == "done" for task in tasks))
    return _read_answers(past, tasks)


def _read_answers(past: History, tasks: list[UUID]) -> list[list[tuple[str, float]]]:
    answers = []
    for task in tasks:
        hits = past.revisions(task)[-1]["answer"]
        answers.append([(hit["past_eid"], hit["score"]) for hit in hits])
    assert all(answers)
    return answers


def _run(managers: list[RecallManager], until: Callable[[], bool]) -> None:
    """Rounds of all managers in turn."""

    def has_ended() -> bool:
        for other in managers[1:]:
            other.run_once()
        return until()

    run_until(managers[0], has_ended)


def _corpus_bytes(past: History) -> int:
    index = Corpora(past.connection, Path(past.settings.archive)).load_index("g/r", "1", _QUESTION)
    index.refresh_bounds()
    return sum(index.chunk_bytes().values())


def _held_parts(past: History) -> dict[str | None, int]:
    return {row.holder: row.parts for row in PartGateway(past.connection).list_held()}


@pytest.fixture
def compared_spans(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many spans each answered request had."""
    spans: list[int] = []
    compare = PartComparisons._compare

    def count(self: PartComparisons, request: Any) -> Any:
        answer = compare(self, request)
        spans.append(len(request.spans))
        return answer

    monkeypatch.setattr(PartComparisons, "_compare", count)
    return spans


def test_two_processes_that_hold_half_each_answer_as_one(
    past: History, compared_spans: list[int]
) -> None:
    with past.manager() as manager:
        expected = _answers(past, [manager])
    assert not compared_spans
    half = _corpus_bytes(past) * 6 // 10
    with ExitStack() as stack:
        managers = [
            stack.enter_context(past.manager(corpus_memory=(name, half)))
            for name in ("recall", "recall 2")
        ]
        assert _answers(past, managers) == expected
        _run(managers, lambda: None not in _held_parts(past))
        parts = _held_parts(past)
        assert sum(parts.values()) >= _CHUNKS
        assert min(parts.values()) >= 2
        assert _answers(past, managers) == expected
        assert sum(compared_spans) >= 6
        # A process that has ended is not waited for, and its parts are free.
        managers[1].shut_down()
        past.connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
            " AND objsubid = 2 AND objid = (SELECT max(lease) FROM corpus_parts)"
        )
        compared = len(compared_spans)
        assert _answers(past, managers[:1]) == expected
        assert len(compared_spans) == compared
        assert _held_parts(past).keys() == {"recall", None}
        third = stack.enter_context(past.manager(corpus_memory=("recall 3", half)))
        _run([third], lambda: "recall 3" in _held_parts(past))


def test_one_process_answers_exactly_what_does_not_fit_in_its_memory(past: History) -> None:
    with past.manager() as manager:
        expected = _answers(past, [manager])
    for memory in (1, _corpus_bytes(past) // 3):
        with past.manager(corpus_memory=("recall", memory)) as manager:
            assert _answers(past, [manager]) == expected
            parts = _held_parts(past)
            assert parts[None] >= 1
            assert ("recall" in parts) == (memory > 1)


def test_parts_that_are_not_compared_in_time_are_compared_here(
    past: History, monkeypatch: pytest.MonkeyPatch, compared_spans: list[int]
) -> None:
    """The other process lives, but answers nothing; or its corpus is another one."""
    with past.manager() as manager:
        expected = _answers(past, [manager])
    half = _corpus_bytes(past) * 6 // 10
    monkeypatch.setattr(recall.worker.part_comparisons, "_ANSWER_TIMEOUT", 0.1)
    monkeypatch.setattr(recall.worker.part_comparisons, "_AVOID_DURATION", 0.0)
    with ExitStack() as stack:
        managers = [
            stack.enter_context(past.manager(corpus_memory=(name, half)))
            for name in ("recall", "recall 2")
        ]
        _answers(past, managers)
        _run(managers, lambda: None not in _held_parts(past))
        assert _answers(past, managers[:1]) == expected
        monkeypatch.setattr(PartComparisons, "_compare", _refuse)
        assert _answers(past, managers) == expected


def _refuse(self: PartComparisons, request: Any) -> Any:
    raise ValueError("the corpora differ")
