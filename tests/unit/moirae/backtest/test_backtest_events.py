"""The events of a back-test."""

from datetime import UTC, datetime, timedelta

import numpy as np

from moirae.alerts.event_columns import EventColumns
from moirae.backtest.backtest_events import BacktestEvents
from tests.unit.moirae.backtest.builders import make_event

START = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_key_has_one_number_in_all_parts() -> None:
    events = [
        make_event(START + timedelta(minutes=number), host) for number, host in enumerate("abcba")
    ]
    tested = BacktestEvents()
    assert (len(tested), tested.times.tolist(), tested.make_events(np.array([], int))) == (
        0,
        [],
        [],
    )
    tested.add([EventColumns.of_events(events[2:])])
    tested.add([EventColumns.of_events(events[:2]), EventColumns.of_events([])])
    assert len(tested) == 5
    assert [key.values["host"] for key in tested.keys] == ["c", "b", "a"]
    assert tested.key_numbers.tolist() == [0, 1, 2, 2, 1]
    assert tested.times.tolist() == [event.ts for event in [*events[2:], *events[:2]]]
    assert tested.make_events(np.array([4, 0, 3])) == [events[1], events[2], events[0]]
