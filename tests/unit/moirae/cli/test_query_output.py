"""Output of a query that follows: history once, then each change."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson
import pytest

from moirae.cli.query_output import QueryFormat, make_output
from moirae.services.operations.queries import StartedQuery
from moirae.services.operations.recalls import RecallRevision

COVERAGE = {"left": 0, "read": 1, "failed": 0, "partial": False, "final": False}


def _answer(number: int, values: list[int], **coverage: Any) -> RecallRevision:
    return RecallRevision(
        recall=UUID(int=1),
        eid=UUID(int=2),
        rule="query",
        name="query",
        kind="sql",
        number=number,
        final=False,
        coverage=COVERAGE | coverage,
        rows=[{"v": value} for value in values],
        hits=None,
        estimates=[],
        comparable=None,
        match=None,
        forecast=None,
        error=None,
        at=datetime(2026, 1, 1, tzinfo=UTC),
    )


@pytest.mark.parametrize("output", QueryFormat)
def test_query_that_follows_an_empty_history_says_once_that_it_waits(
    output: QueryFormat, capsys: pytest.CaptureFixture[str]
) -> None:
    started = StartedQuery(id=UUID(int=1), follow=True, appends_rows=True, newest_first=True)
    with make_output(output, started) as printer:
        printer.add(_answer(1, [], read_from=None))
        assert capsys.readouterr().err == "waiting for rows …\n"
        printer.add(_answer(2, [3], appends=True))
        printer.add(_answer(3, []))
        printer.finish()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (QueryFormat.JSON, [[2, 1], [3]]),
        (QueryFormat.CSV, ["v", "1", "2", "3"]),
    ],
)
def test_last_answer_without_rows_prints_nothing(
    output: QueryFormat, expected: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    started = StartedQuery(id=UUID(int=1), follow=True, appends_rows=True, newest_first=True)
    with make_output(output, started) as printer:
        printer.add(_answer(1, [2], partial=True, left=1))
        printer.add(_answer(2, [2, 1]))
        printer.add(_answer(3, [3], appends=True))
        printer.add(_answer(4, [], appends=True))
        printer.finish()
    lines: list[Any] = capsys.readouterr().out.splitlines()
    if output is QueryFormat.JSON:
        documents = map(orjson.loads, lines)
        lines = [
            [row["v"] for row in document.get("rows", document.get("appended"))]
            for document in documents
        ]
    assert lines == expected
