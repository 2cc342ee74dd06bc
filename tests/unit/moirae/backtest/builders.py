"""Alerts of a back-test from events of one rule."""

from collections.abc import Collection, Sequence
from datetime import datetime
from uuid import UUID

import numpy as np

from archiver.times import to_micros
from moirae.alerts.alerting_rule import AlertingRule
from moirae.alerts.column_folding import fold_columns
from moirae.alerts.event import Event, make_fingerprint
from moirae.alerts.event_columns import EventColumns
from moirae.alerts.lifecycle import AlertTiming
from moirae.backtest.alert_columns import AlertColumns
from moirae.backtest.backtest_events import BacktestEvents

TIMING = AlertTiming(for_=0, keep_firing_for=1_000_000)


def make_event(moment: datetime, host: str) -> Event:
    ts = to_micros(moment)
    key = {"host": host}
    return Event(UUID(int=ts), ts, key, make_fingerprint(key), {**key, "v": ts})


def fold(rows: Sequence[tuple[datetime, str]], hidden: Collection[datetime] = ()) -> AlertColumns:
    """Alerts of times and hosts. `hidden`: when those start that `where` hides."""
    events = BacktestEvents()
    middle = len(rows) // 2
    for part in (rows[middle:], rows[:middle]):
        events.add([EventColumns.of_events([make_event(*row) for row in part])])
    lifetimes = fold_columns(events.times, events.key_numbers, TIMING, None)
    is_hidden = np.isin(lifetimes.starts, list(map(to_micros, hidden)))
    rule = AlertingRule("g/r", "v", TIMING, {"alertname": "r"}, lambda event: {})
    return AlertColumns(rule, events, lifetimes, is_hidden)
