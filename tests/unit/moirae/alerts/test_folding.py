"""Alerts from the events of a rule."""

from uuid import UUID

from moirae.alerts.event import Event
from moirae.alerts.folding import fold_alerts
from moirae.alerts.lifecycle import AlertTiming


def event(ts: int, host: str) -> Event:
    return Event(UUID(int=ts), ts, {"host": host}, f'["{host}"]', {"host": host})


def test_events_of_a_fingerprint_become_alerts_one_after_the_other() -> None:
    events = [event(30, "a"), event(1, "a"), event(2, "b"), event(5, "a")]
    alerts = fold_alerts(events, AlertTiming(for_=4, keep_firing_for=10), 32)
    summary = [
        (
            alert.first_event.key["host"],
            len(alert.events),
            alert.lifetime.fired,
            alert.lifetime.ended,
        )
        for alert in alerts
    ]
    assert summary == [("a", 2, 5, 15), ("a", 1, None, None), ("b", 1, None, 12)]
