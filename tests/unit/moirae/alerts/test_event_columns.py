"""Events of a rule by columns."""

from uuid import UUID

import numpy as np

from moirae.alerts.event import Event
from moirae.alerts.event_columns import EventColumns


def test_events_of_one_fingerprint_have_one_key() -> None:
    events = [
        Event(UUID(int=number), 10 * number, {"host": host}, f'["{host}"]', {"host": host})
        for number, host in enumerate("aba")
    ]
    columns = EventColumns.of_events(events)
    assert len(columns) == 3
    assert columns.times.tolist() == [0, 10, 20]
    assert [key.values for key in columns.keys] == [{"host": "a"}, {"host": "b"}]
    assert columns.keys[0].fingerprint == events[0].fingerprint
    assert columns.key_numbers.tolist() == [0, 1, 0]
    assert columns.make_events(np.array([2, 0])) == [events[2], events[0]]
