"""Recalls in the orders `extreme` and `weighted`: what comes first, and what is said of the rest."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from archiver.times import Micros, to_micros
from recall.requests import Piece
from recall.worker import column_values
from tests.integration.history import START, History, history, run_until, without_tasks

pytestmark = pytest.mark.services

_CHUNKS = 12
_ROWS = 20
_TOP = "SELECT max(h.v) AS top, count(*) AS n FROM past h"


@pytest.fixture(scope="module")
def with_outlier() -> Iterator[History]:
    """One row of the fourth chunk, archived late, is far above all others."""
    with history(_CHUNKS, _ROWS) as past, pytest.MonkeyPatch.context() as patch:
        patch.setattr(column_values, "_READ_TIME", 60.0)  # values of all files, however slow
        past.archive_rows([(3 * _ROWS + 4, "h1", 5_000)])
        yield past


def _ask(past: History, **options: Any) -> list[dict[str, Any]]:
    """The revisions of a recall that is answered whenever possible, with their numbers of pieces."""
    task = without_tasks(past).add_task(1, _TOP, **options)
    with past.manager() as manager:
        run_until(manager, lambda: past.task(task)["ended_at"] is not None)
    assert past.task(task)["error"] is None
    pieces = [Piece.from_json(stored) for stored in past.task(task)["pieces"]]
    assert len(pieces) == _CHUNKS + 1  # the newest one has no rows yet
    return [{**revision, "pieces": pieces} for revision in past.revisions(task)]


def _values(past: History, pieces: list[Piece]) -> list[int]:
    def ts(second: int) -> Micros:
        return to_micros(START + timedelta(seconds=second))

    return [
        v for second, _, v in past.rows if any(piece.range.contains(ts(second)) for piece in pieces)
    ]


def test_outliers_come_first_and_unread_values_are_bounded(with_outlier: History) -> None:
    revisions = _ask(with_outlier, order="extreme", extreme="v")
    assert len(revisions) > 2
    assert revisions[0]["answer"][0]["top"] == 5_000
    for revision in revisions:
        coverage, pieces = revision["coverage"], revision["pieces"]
        read, unread = pieces[: coverage["read"]], pieces[coverage["read"] :]
        (row,) = revision["answer"]
        assert (row["n"], row["top"]) == (
            len(_values(with_outlier, read)),
            max(_values(with_outlier, read)),
        )
        if values := _values(with_outlier, unread):
            assert coverage["unread"] == {"v": [min(values), max(values)]}
    assert "unread" not in revisions[-1]["coverage"]
    assert revisions[-1]["coverage"]["final"]


def test_drawn_chunks_are_exact_over_what_was_read(with_outlier: History) -> None:
    revisions = _ask(with_outlier, order="weighted", fade=0.8)
    pieces = revisions[0]["pieces"]
    assert pieces != sorted(pieces, key=lambda piece: piece.high, reverse=True)
    shares = []
    for revision in revisions:
        read = pieces[: revision["coverage"]["read"]]
        assert revision["answer"][0]["n"] == len(_values(with_outlier, read))
        shares.append(revision["coverage"]["share"])
    assert shares == sorted(shares) and shares[-1] == 1.0


@pytest.mark.parametrize("options", [{"order": "weighted"}, {"order": "extreme", "extreme": "v"}])
def test_answer_does_not_depend_on_the_order(options: Any, with_outlier: History) -> None:
    (row,) = _ask(with_outlier, **options)[-1]["answer"]
    assert (row["n"], row["top"]) == (_CHUNKS * _ROWS + 1, 5_000)
