"""Warnings are the same after they were stored."""

import orjson

from moirae.rules.checks.rule_warnings import RuleWarning
from moirae.rules.model import AlertSpec
from moirae.rules.rule_set import Rule


def test_stored_warning_is_the_same_problem() -> None:
    rule = Rule("g", AlertSpec(alert="A", expr="SELECT ts FROM s"))
    warning = RuleWarning("slow", ("expr",), 2, 7)
    stored = RuleWarning(*orjson.loads(orjson.dumps(list(warning))))
    assert stored.to_problem(rule) == warning.to_problem(rule)
    assert warning.to_problem(rule).severity == "warning"
