"""Why a drain is not complete."""

from datetime import UTC, datetime
from typing import Any

from archiver.times import to_micros
from moirae.inspect.status import find_drain_problems

SETTLED = to_micros(datetime(2026, 1, 1, tzinfo=UTC))


def _status(**parts: Any) -> dict[str, Any]:
    return {
        "accounting": {"read": 0, "archived": 0, "duplicates": 0, "dead_lettered": 0},
        "recalls": {},
        "rules": [],
        "streams": {},
        "set_aside": [],
        "retrying": [],
        "held_relations": [],
        "source_errors": [],
        "lost_records": [],
        "relation_errors": [],
        **parts,
    }


def _rule(state: str, error: str | None, settled_to: int | None = SETTLED) -> dict[str, Any]:
    return {"rule": "g/r", "state": state, "error": error, "settled_to": settled_to}


def test_complete_drain_has_no_problems() -> None:
    assert find_drain_problems(_status(rules=[_rule("running", None)])) == []


def test_rule_that_failed_is_named_with_the_span_not_evaluated() -> None:
    problems = find_drain_problems(_status(rules=[_rule("running", "division by zero\nmore")]))
    assert problems == [
        "rule g/r failed, not evaluated from 2026-01-01T00:00:00+00:00 to the end of the input: "
        "division by zero"
    ]


def test_rule_in_quarantine_is_named() -> None:
    (problem,) = find_drain_problems(_status(rules=[_rule("quarantined", "too slow", None)]))
    assert problem == (
        "rule g/r is in quarantine, not evaluated from the beginning to the end of the input: "
        "too slow"
    )


def test_rule_that_has_not_evaluated_the_newest_row_is_named() -> None:
    streams = {"m": {"newest": datetime(2026, 1, 2, tzinfo=UTC)}}
    status = _status(rules=[_rule("running", None)], streams=streams)
    assert find_drain_problems(status) == [
        "rule g/r is not complete, not evaluated from 2026-01-01T00:00:00+00:00 on"
    ]
    after_newest = to_micros(datetime(2026, 1, 2, tzinfo=UTC)) + 1
    complete = _status(rules=[_rule("running", None, after_newest)], streams=streams)
    assert find_drain_problems(complete) == []


def test_what_is_set_aside_or_still_tried_is_named() -> None:
    subject = {"kind": "file", "name": "a", "stream": "m", "tries": 2, "reason": "broken"}
    (problem,) = find_drain_problems(_status(retrying=[subject]))
    assert "file a of stream m: broken" in problem
