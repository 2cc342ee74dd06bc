"""The reads behind a stored SQL answer."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from recall.errors import RecallError
from recall.replay.sql_answers import parse_reads
from recall.requests import Piece
from sql.recalls import RepeatableRow


def stored(seen: list[Any]) -> RepeatableRow:
    pieces = [(2, 20, 30), (1, 10, 20), (0, None, 10)]
    coverage = {"by_summary": 0, "read": 2, "failed": 1}
    return RepeatableRow(
        id=UUID(int=1),
        eid=UUID(int=2),
        rule="g/r",
        version="1",
        recall="norm",
        request={},
        event={},
        pieces=pieces,
        piece_count=None,
        corpus=None,
        model=None,
        seen=seen,
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
        number=1,
        coverage=coverage,
        answer=[],
    )


def test_pieces_of_one_query_are_one_read() -> None:
    reads = list(parse_reads(stored([(0, 2, {"past": 5}), (2, 3, {"past": 6})])))
    assert reads == [(Piece(2, 10, 30), {"past": 5}), (Piece(0, None, 10), {"past": 6})]


def test_failed_read_is_left_out() -> None:
    reads = list(parse_reads(stored([(0, 1, None), (1, 3, {"past": 6})])))
    assert reads == [(Piece(1, None, 20), {"past": 6})]


@pytest.mark.parametrize("seen", [[], [(0, 1, {"past": 5})], [(1, 3, {"past": 5})]])
def test_missing_reads_are_reported(seen: list[Any]) -> None:
    with pytest.raises(RecallError, match="did not record which rows it read"):
        list(parse_reads(stored(seen)))
