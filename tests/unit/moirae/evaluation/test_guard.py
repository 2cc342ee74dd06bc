"""Suspects, quarantine, and limits of event rows."""

from operator import attrgetter
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from archiver.errors import TaskLost
from moirae.alerts import EventRow
from moirae.config.limits import Limits
from moirae.evaluation import guard as guard_module
from moirae.evaluation.guard import Guard
from recall.errors import MemoryExceeded, StatementTimeout
from tests.unit.moirae.evaluation.builders import START_MICROS, make_filter


@pytest.fixture
def registry() -> Mock:
    """Records failures; no rule is quarantined yet."""
    registry = Mock()
    registry.record_failure.return_value = False
    registry.record_crash.return_value = False
    return registry


@pytest.fixture
def guard(monkeypatch: pytest.MonkeyPatch, registry: Mock) -> Guard:
    """A guard that allows five events per minute."""
    monkeypatch.setattr(guard_module, "RuleRegistry", lambda connection: registry)
    settings: Any = SimpleNamespace(limits=Limits(matches=5))
    return Guard(Mock(), settings, Mock())


def _name(rule: str) -> str:
    return rule


def test_suspects_are_evaluated_alone_after_the_others(guard: Guard) -> None:
    assert guard.isolate_suspects([], _name) == []
    assert guard.isolate_suspects(["A", "B", "C"], _name) == [["A", "B", "C"]]
    guard.reset_quarantine(["A"])
    assert guard.isolate_suspects(["A", "B", "C"], _name) == [["B", "C"], ["A"]]
    assert guard.isolate_suspects(["A"], _name) == [["A"]]


def test_timeout_counts_as_a_crash_and_makes_the_rule_a_suspect(
    guard: Guard, registry: Mock
) -> None:
    rule = make_filter("A", 1.5)
    registry.record_crash.return_value = True
    guard.record_failure(rule, StatementTimeout(20.0))
    message = "exceeded its time limit of 20 s of processor time"
    assert registry.record_crash.call_args.args[2:] == ("time", message)
    assert guard.quarantined == {"g/A"}
    other_rule = make_filter("B", 1.5)
    groups = guard.isolate_suspects([rule, other_rule], lambda rule: rule.name)
    assert groups == [[other_rule], [rule]]


def test_failure_is_recorded_with_its_first_line_and_row(guard: Guard, registry: Mock) -> None:
    guard.record_failure(make_filter("A", 1.5), ValueError("invalid\nplan"), {"row": 1})
    recorded = registry.record_failure.call_args.kwargs
    assert (recorded["kind"], recorded["message"], recorded["event"]) == (
        "error",
        "invalid",
        {"row": 1},
    )
    assert guard.quarantined == set()


def test_events_over_the_limit_are_counted_and_left_out(guard: Guard, registry: Mock) -> None:
    rule = make_filter("A", 1.5)
    event_rows = [EventRow(START_MICROS + number, {}) for number in range(8)]
    assert guard.limit_event_rows(rule, event_rows) == event_rows[:5]
    recorded = registry.record_failure.call_args.kwargs
    assert recorded["message"] == "more events in one evaluation than the limit of 5"
    assert recorded["times"] == 3
    assert recorded["event"] == {"from": "2026-01-01T00:00:00+00:00"}
    assert guard.rules_over_limit == {"g/A"}
    assert guard.limit_event_rows(rule, event_rows[:2]) == event_rows[:2]
    assert guard.rules_over_limit == set()


@pytest.mark.parametrize("error", [MemoryExceeded("out of memory"), TaskLost()])
def test_rule_that_exhausts_the_memory_of_a_task_becomes_a_suspect(
    guard: Guard, registry: Mock, error: Exception
) -> None:
    rules = [make_filter("A", 1.0), make_filter("B", 1.0)]
    guard.record_failure(rules[0], error)
    assert registry.record_crash.call_args.args[2:] == ("memory", str(error))
    assert guard.isolate_suspects(rules, attrgetter("name")) == [[rules[1]], [rules[0]]]
