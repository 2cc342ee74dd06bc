"""Tasks parsed from rows of the ledger."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from recall.ledger.records import parse_task
from recall.requests import Piece, SimilarQuestion
from sql.recalls import TaskRow

QUESTION = SimilarQuestion(None, 1.0, "newest", contexts=("near",), k=3, measure="tfidf", gap=0)
ROW: dict[str, Any] = {
    "id": UUID(int=1),
    "eid": UUID(int=2),
    "rule": "g/r",
    "version": "1",
    "recall": "like",
    "request": {**vars(QUESTION), "contexts": ["near"]},
    "event": {"ts": 5, "key": {}, "attributes": {}},
    "level": 0,
    "tickets": 100,
    "pieces": [[1, None, 5]],
    "corpus": 7,
    "model": None,
    "next": 0,
    "failed": 0,
    "skipped": 0,
    "partial_answer": b"partial",
    "revision": 0,
    "tries": 0,
    "rows": 0,
    "results": 0,
    "seconds": 0.0,
    "fence": 3,
    "created_at": datetime(2026, 1, 1, tzinfo=UTC),
}


def test_task_is_parsed_from_its_row() -> None:
    task = parse_task(TaskRow(**ROW))
    assert task.spec.question == QUESTION
    assert (task.spec.event.eid, task.spec.event.ts) == (UUID(int=2), 5)
    assert task.progress.pieces == [Piece(1, None, 5)]
    assert task.progress.partial_answer == b"partial"


def test_unknown_kind_of_question_raises() -> None:
    with pytest.raises(ValueError, match="unknown kind of recall 'unknown'"):
        parse_task(TaskRow(**{**ROW, "request": {"kind": "unknown"}}))
