"""Back-tests: their range, and what slices add to them."""

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from moirae.alerts.event import Event
from moirae.alerts.event_columns import EventColumns
from moirae.backtest.run import Backtest, find_notes, plan_backtest
from moirae.backtest.slices import BacktestRange
from moirae.evaluation.plan import ActiveRule
from moirae.rules import AlertSpec, Definition
from moirae.rules.rule_set import Rule


def test_range_begins_with_the_first_window_of_the_oldest_rows() -> None:
    shape = SimpleNamespace(streams={"a"}, lag=60, horizon=lambda watermarks: watermarks["a"])
    definition = SimpleNamespace(keep_firing_for=5, recalls_every_event=False, pending_for=0)
    rule: Any = SimpleNamespace(shape=shape, definition=definition, keep_firing_for=5)
    archive: Any = SimpleNamespace(watermarks={"a": 900}, newest={"a": 800}, oldest={"a": 100})
    tested = plan_backtest(rule, archive, lambda newest: newest - 10_000, None)
    assert tested is not None
    assert (tested.start, tested.end, tested.newest) == (40, 900, 800)
    assert plan_backtest(rule, archive, lambda newest: newest, 700) is None


def make_test(rule: Any, newest: dict[str, int]) -> Backtest:
    """A test of [0, 1000) over streams with newest rows."""
    archive: Any = SimpleNamespace(newest=newest)
    return Backtest(rule, archive, BacktestRange(start=10, end=1_000, newest=max(newest.values())))


def make_events(*times: int) -> EventColumns:
    return EventColumns.of_events(
        [Event(UUID(int=ts), ts, {"host": "a"}, '["a"]', {"host": "a"}) for ts in times]
    )


@pytest.mark.parametrize(("is_absence", "times"), [(True, [5, 40, 60]), (False, [5, 40, 60, 70])])
def test_silence_after_the_end_of_all_input_is_no_absence(
    is_absence: bool, times: list[int]
) -> None:
    test = make_test(SimpleNamespace(is_absence=is_absence), {"watched": 30, "other": 60})
    test.add([make_events(5, 40, 60, 70)], done_from=0)
    assert test.events.times.tolist() == times
    assert [event.ts for event in test.events.make_events(np.array([2]))] == [60]
    assert test.count_events() == len(times) - 1  # one is in the overlap before the range


def test_a_rule_that_fails_keeps_what_was_found_before() -> None:
    test = make_test(SimpleNamespace(is_absence=False), {"s": 60})
    test.add([make_events(50)], done_from=40)
    error = ValueError("no")
    test.add(error, done_from=20)
    assert (test.error, test.done_from, len(test.events)) == (error, 40, 1)


def test_contexts_over_alerts_are_named_where_there_are_no_alerts() -> None:
    spec = AlertSpec.model_validate(
        {
            "alert": "A",
            "expr": "SELECT ts FROM s",
            "context": {
                "others": {"sql": "SELECT rule FROM alerts", "within": "10m"},
                "near": {"sql": "SELECT v FROM s", "within": "1m"},
            },
        }
    )
    rule = ActiveRule.create(Definition(Rule("g", spec, ()), {}, (), ()), {"s": "ts"}, frozenset())
    assert find_notes(rule) == []
    (note,) = find_notes(rule, has_alerts=False)
    assert note.endswith("have no rows: others")
