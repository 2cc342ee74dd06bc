"""Rules that have not evaluated all rows."""

from datetime import UTC, datetime
from typing import Any

import pytest

from archiver.times import to_micros
from moirae.inspect.incomplete_rules import find_quarantine_problem, list_incomplete_rules

_TIME = datetime(2026, 1, 1, tzinfo=UTC)


def _rule(name: str, state: str, error: str | None = None) -> dict[str, Any]:
    return {"rule": name, "state": state, "error": error, "settled_to": to_micros(_TIME)}


def test_rules_that_failed_or_are_in_quarantine_are_listed() -> None:
    rules = [
        _rule("g/a", "running"),
        _rule("g/b", "running", "division by zero\nmore"),
        _rule("g/c", "quarantined"),
    ]
    assert list_incomplete_rules(rules) == [
        {"rule": "g/b", "state": "failed", "since": _TIME, "reason": "division by zero"},
        {"rule": "g/c", "state": "quarantined", "since": _TIME, "reason": "no reason is known"},
    ]


@pytest.mark.parametrize(("count", "end"), [(5, ""), (6, " and 1 more"), (1200, " and 1,195 more")])
def test_line_about_quarantine_names_some_rules(count: int, end: str) -> None:
    rules = [_rule(f"g/r{number}", "quarantined") for number in range(count)]
    problem = find_quarantine_problem({"rules": rules})
    assert problem is not None
    assert problem.endswith(
        f"g/r4 (not evaluated from {_TIME.isoformat()}){end}: see `moirae rules list`"
    )


def test_no_rule_in_quarantine_is_no_problem() -> None:
    assert find_quarantine_problem({"rules": [_rule("g/a", "running", "failed once")]}) is None
