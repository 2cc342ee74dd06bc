"""Rules that have not evaluated all rows."""

from datetime import UTC, datetime
from typing import Any

import pytest

from archiver.times import to_micros
from moirae.inspect.incomplete_rules import find_rule_problems, list_incomplete_rules

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
    (problem,) = _find_problems(rules)
    assert problem.endswith(
        f"g/r4 (not evaluated from {_TIME.isoformat()}){end}: see `moirae rules list`"
    )


def test_rule_that_failed_is_a_problem_until_it_is_evaluated() -> None:
    rules = [_rule("g/a", "running", "division by zero"), _rule("g/b", "quarantined")]
    assert _find_problems(rules) == [
        f"rules in quarantine: g/b (not evaluated from {_TIME.isoformat()}): see `moirae rules list`",
        f"rules that failed: g/a (not evaluated from {_TIME.isoformat()}): see `moirae rules list`",
    ]
    assert _find_problems([_rule("g/a", "running")]) == []


def _find_problems(rules: list[dict[str, Any]]) -> list[str]:
    return list(find_rule_problems({"incomplete_rules": list_incomplete_rules(rules)}))
