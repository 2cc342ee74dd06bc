"""Problems of topics in the status."""

from datetime import UTC, datetime
from typing import Any

from moirae.inspect.report import SourceErrorStatus
from moirae.inspect.topics import find_topic_problems, list_brokers_away

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
ERRORS = [
    SourceErrorStatus(stream="x", kind="away", error="the brokers do not answer", since=START),
    SourceErrorStatus(stream="y", kind="missing", error="topic y does not exist", since=START),
]


def _loss(stream: str, first: int, last: int | None, reason: str) -> dict[str, Any]:
    return {
        "stream": stream,
        "topic": "t",
        "partition": "0",
        "first_offset": first,
        "last_offset": last,
        "reason": reason,
    }


def test_each_topic_that_cannot_be_read_is_a_problem() -> None:
    problems = list(find_topic_problems({"source_errors": ERRORS, "lost_records": []}))
    assert problems == [
        "stream x: since 2026-01-01 12:00:00Z, the brokers do not answer",
        "stream y: since 2026-01-01 12:00:00Z, topic y does not exist",
    ]


def test_each_loss_is_a_problem_with_its_range_and_what_to_do() -> None:
    losses = [
        _loss("x", 100, 149, "deleted"),
        _loss("x", 7, None, "recreated"),
        _loss("y", 350, 399, "truncated"),
    ]
    problems = list(find_topic_problems({"source_errors": [], "lost_records": losses}))
    assert len(problems) == 3
    assert "partition 0 offsets 100 to 149" in problems[0]
    assert problems[0].endswith("then run `moirae streams acknowledge x`")
    assert problems[2].startswith("stream y: ") and "350 to 399" in problems[2]


def test_readiness_depends_on_brokers_only() -> None:
    assert list_brokers_away(ERRORS) == ["stream x: the brokers do not answer"]
