"""Comparisons in the recall manager: failures of one task, and restarts after changes."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

import recall.worker.comparisons
from archiver.times import to_micros
from recall.ledger.tasks import Ledger
from recall.requests import RecallEvent, RecallRequest, SimilarQuestion, SqlQuestion, task_id
from recall.similarity.answer import SimilarState
from recall.similarity.index import Index
from recall.similarity.measures.measure import TfIdfMeasure
from sql.recalls import ChangedContextRow
from tests.integration.history import START, History, run_until


def test_tasks_compared_together_fail_individually(
    past: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = SimilarQuestion(None, 0.0, "newest", ("processes",), 3, TfIdfMeasure.name, 0)
    events = [RecallEvent(UUID(int=number), to_micros(START), {}, {}) for number in (1, 2, 3)]
    Ledger(past.connection).add(
        [RecallRequest("g/r", "1", "similar", question, event, 0) for event in events]
    )
    first, odd, last = (task_id("g/r", "1", "similar", event.eid) for event in events)

    def compare(
        index: Index, states: Sequence[SimilarState], *arguments: Any
    ) -> list[tuple[int, bool]]:
        compared = real(index, states, *arguments)
        if any(state.comparison.event.eid == str(events[1].eid) for state in states):
            raise ValueError("odd")
        return compared

    real = recall.worker.comparisons.compare
    monkeypatch.setattr(recall.worker.comparisons, "compare", compare)
    # Nothing is alike here: that is not looked at beforehand.
    monkeypatch.setattr(
        SimilarState,
        "pieces_without_matches",
        lambda _, spans: [False] * len(spans),
    )
    with past.manager() as manager:
        run_until(
            manager,
            lambda: all(
                past.task(task)["state"] in ("done", "failed") for task in (first, odd, last)
            ),
        )
    assert [past.task(task)["state"] for task in (first, odd, last)] == ["done", "failed", "done"]
    assert past.task(odd)["error"] == "odd"


def test_comparison_restarts_after_context_or_corpus_changes(past: History) -> None:
    question = SimilarQuestion(None, 0.0, "newest", ("processes",), 3, TfIdfMeasure.name, 0)
    events = [
        RecallEvent(UUID(int=number), to_micros(START) + number, {}, {}) for number in (1, 2, 3)
    ]
    ledger = Ledger(past.connection)
    ledger.add([RecallRequest("g/r", "1", "similar", question, event, 0) for event in events])
    tasks = [task_id("g/r", "1", "similar", event.eid) for event in events]
    past.connection.execute("UPDATE tasks SET state = 'done', corpus = 5")

    def waiting() -> list[bool]:
        return [past.task(task)["state"] == "waiting" for task in tasks]

    changed = [(events[0].eid, "1", {"processes"}), (events[1].eid, "0", {"processes"})]
    ledger.restart_readers([ChangedContextRow(*row, set()) for row in changed])
    assert waiting() == [True, False, False]
    past.connection.execute(
        "INSERT INTO contexts (rule, version, eid, ts, contexts, surroundings, settled, corpus) "
        "SELECT rule, version, eid, %s, '{}', '{}', true, 6 FROM tasks WHERE id = %s",
        (START + timedelta(microseconds=2), tasks[1]),
    )
    try:
        ledger.restart_incomplete_comparisons("g/r", "1", events[1].ts)
    finally:
        past.connection.execute("TRUNCATE contexts")
    assert waiting() == [True, False, True]


def test_sql_recall_restarts_after_a_context_that_it_reads_changes(past: History) -> None:
    own = {"light": {"host": "string"}}
    questions = {
        name: SqlQuestion(None, 0.0, "newest", "", {}, (), {}, {}, tables, {})
        for name, tables in (("reads", own), ("other", {}))
    }
    event = RecallEvent(UUID(int=9), to_micros(START), {}, {})
    ledger = Ledger(past.connection)
    ledger.add(
        [
            RecallRequest("g/r", "1", name, question, event, 0)
            for name, question in questions.items()
        ]
    )
    past.connection.execute("UPDATE tasks SET state = 'done', next = 3, seen = '[[0, 3, {}]]'")

    def waiting() -> list[str]:
        rows = past.connection.execute(
            "SELECT recall FROM tasks WHERE state = 'waiting' AND seen = '[]' AND eid = %s",
            (event.eid,),
        )
        return [recall for (recall,) in rows]

    ledger.restart_readers([ChangedContextRow(event.eid, "1", {"heavy"}, set())])
    assert waiting() == []
    ledger.restart_readers([ChangedContextRow(event.eid, "1", set(), {"light"})])
    assert waiting() == ["reads"]
