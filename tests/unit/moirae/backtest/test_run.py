"""The range of a back-test."""

from types import SimpleNamespace
from typing import Any

from moirae.backtest.run import plan_backtest


def test_range_begins_with_the_first_window_of_the_oldest_rows() -> None:
    shape = SimpleNamespace(streams={"a"}, lag=60, horizon=lambda watermarks: watermarks["a"])
    definition = SimpleNamespace(keep_firing_for=5, recalls_every_event=False, pending_for=0)
    rule: Any = SimpleNamespace(shape=shape, definition=definition, keep_firing_for=5)
    archive: Any = SimpleNamespace(watermarks={"a": 900}, newest={"a": 800}, oldest={"a": 100})
    tested = plan_backtest(rule, archive, lambda newest: newest - 10_000, None)
    assert tested is not None
    assert (tested.start, tested.end, tested.newest) == (40, 900, 800)
    assert plan_backtest(rule, archive, lambda newest: newest, 700) is None
