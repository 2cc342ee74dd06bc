"""Summaries that a stream declares."""

from typing import Any

import pytest

from moirae.config.streams import Stream
from moirae.config.summaries import DeclaredSummary, find_summary_problems

DECLARED: dict[str, Any] = {
    "columns": {"ts": "timestamp", "host": "string", "v": "double"},
    "time": "ts",
    "source": {"files": "a/*.jsonl"},
}


def test_stream_declares_summaries_of_its_columns() -> None:
    stream = Stream.model_validate({**DECLARED, "summaries": [{"key": ["host"], "columns": ["v"]}]})
    assert stream.summaries == (DeclaredSummary(key=("host",), columns=("v",)),)


@pytest.mark.parametrize("summary", [{"key": ["v"]}, {"key": ["x"]}, {"columns": ["x"]}])
def test_refuses_unknown_columns_and_keys_that_are_fractions(summary: dict[str, list[str]]) -> None:
    declared = DeclaredSummary.model_validate(summary)
    (problem,) = find_summary_problems((declared,), DECLARED["columns"])
    assert "is no column of the stream of type string" in problem.message
