"""Alerts from columns of events."""

import numpy as np

from moirae.alerts.column_folding import UNSET, fold_columns
from moirae.alerts.lifecycle import AlertTiming


def test_events_of_a_key_become_alerts_one_after_the_other() -> None:
    times, keys = np.array([30, 1, 2, 5]), np.array([0, 0, 1, 0])
    alerts = fold_columns(times, keys, AlertTiming(for_=4, keep_firing_for=10), 32)
    assert alerts.first.tolist() == [1, 0, 2]
    assert alerts.starts.tolist() == [1, 30, 2]
    assert alerts.last.tolist() == [5, 30, 2]
    assert alerts.events.tolist() == [2, 1, 1]
    assert alerts.fired.tolist() == [5, UNSET, UNSET]
    assert alerts.ended.tolist() == [15, UNSET, 12]


def test_no_events_become_no_alerts() -> None:
    nothing = np.array([], np.int64)
    for duration in (0, 5):
        alerts = fold_columns(nothing, nothing, AlertTiming(duration, 10), None)
        assert all(not len(column) for column in alerts)


def test_selected_lifetimes_keep_their_order() -> None:
    alerts = fold_columns(np.array([0, 100, 200]), np.zeros(3, int), AlertTiming(0, 10), None)
    selected = alerts.select(np.array([2, 0]))
    assert (selected.starts.tolist(), selected.ended.tolist()) == ([200, 0], [UNSET, 10])
