"""What is known of earlier alerts at the time of an event, and verdicts in the order of time."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from moirae.alerts.event import Event
from moirae.alerts.lifecycle import AlertLifetime
from moirae.alerts.spans import SpansByEvent, evaluate_in_order, find_spans
from recall.norms import AlertSpan

MINUTE = 60_000_000


def _alert(number: int, starts: int, ended: int | None, fired: int | None = None) -> AlertLifetime:
    """An alert whose times are in minutes; it fires at once."""
    return AlertLifetime(
        UUID(int=number),
        starts * MINUTE,
        starts * MINUTE,
        fired=(starts if fired is None else fired) * MINUTE,
        ended=None if ended is None else ended * MINUTE,
    )


def test_only_what_was_known_at_the_time_counts() -> None:
    alerts = [_alert(1, 0, 5), _alert(2, 10, 30), _alert(3, 20, 40, fired=35), _alert(4, 50, None)]
    assert find_spans(alerts, 25 * MINUTE) == (
        AlertSpan(0, 5 * MINUTE),
        AlertSpan(10 * MINUTE, None),  # its end was not known yet
    )
    assert len(find_spans(alerts, 36 * MINUTE)) == 3
    assert find_spans(alerts, 0) == ()


def test_alert_that_never_fired_has_no_span() -> None:
    pending = AlertLifetime(UUID(int=1), 0, 0, ended=5 * MINUTE)
    assert find_spans([pending], 60 * MINUTE) == ()


def _make_event(number: int, key: str, minute: int) -> Event:
    return Event(
        eid=UUID(int=number),
        ts=minute * MINUTE,
        fingerprint=key,
        key={"host": key},
        attributes={"host": key},
    )


def test_verdict_sees_earlier_alerts_of_its_key_that_are_not_hidden() -> None:
    """Alerts are hidden where there is an earlier one: so every second of a key is."""
    asked: list[list[int]] = []

    def evaluate(events: Sequence[Event], spans: SpansByEvent) -> Mapping[UUID, bool | None]:
        asked.append(sorted(event.eid.int for event in events))
        return {event.eid: len(spans[event.eid]) % 2 == 0 for event in events}

    alerts = []
    for number, (key, minute) in enumerate([("b", 30), ("a", 0), ("a", 20), ("a", 40), ("b", 5)]):
        lifetime = _alert(number, minute, minute + 5)
        alerts.append((_make_event(number, key, minute), lifetime))
    verdicts = evaluate_in_order(alerts, evaluate)
    assert asked == [[1, 4], [0, 2], [3]]
    assert {eid.int: verdict for eid, verdict in verdicts.items()} == {
        1: True,
        2: False,
        3: False,
        4: True,
        0: False,
    }
