"""Which spans of past alerts are left out of a norm, and which count again."""

import numpy as np

from recall.history_ranges import DAY, HOUR
from recall.norms.exclusions import choose_exclusions
from recall.norms.model import AlertSpan, Exclusion

NOW = 1_000 * DAY
SPAN = 56 * DAY
TIMES = NOW - SPAN + HOUR * np.arange(56 * 24, dtype=np.int64)
CYCLES = (TIMES - NOW) // DAY


def _before(
    days: float,
    hours: float,
    no_action: bool = False,
    incident: tuple[int, int | None] | None = None,
) -> AlertSpan:
    """An alert that began so many days before now and lasted some hours."""
    start = NOW - int(days * DAY)
    return AlertSpan(start, start + int(hours * HOUR), no_action, incident)


def _choose(*alerts: AlertSpan, exclude: Exclusion = "alerts") -> tuple[int, int, int]:
    """Numbers of spans left out, of spans that count again, and of rows left out."""
    exclusions = choose_exclusions(alerts, exclude, TIMES, CYCLES, NOW, SPAN)
    return len(exclusions.left_out), exclusions.counted_again, int(exclusions.rows.sum())


def test_spans_of_alerts_are_left_out_with_their_ends() -> None:
    assert _choose(_before(3, 2)) == (1, 0, 3)
    assert _choose(_before(3, 2), _before(10, 0.5)) == (2, 0, 4)
    assert _choose(AlertSpan(NOW - 2 * HOUR, None)) == (1, 0, 2)
    assert _choose(_before(3, 2), exclude="none") == (0, 0, 0)


def test_alerts_outside_of_the_range_are_nothing() -> None:
    assert _choose(_before(60, 2)) == (0, 0, 0)
    assert _choose(_before(-1, 2)) == (0, 0, 0)
    assert _choose(_before(57, 48)) == (1, 0, 25)


def test_span_longer_than_a_tenth_of_the_range_counts_again() -> None:
    assert _choose(_before(20, 5.6 * 24)) == (1, 0, 135)
    assert _choose(_before(20, 5.6 * 24 + 0.01)) == (0, 1, 0)
    assert _choose(AlertSpan(NOW - 6 * DAY, None)) == (0, 1, 0)


def test_span_that_needed_no_action_counts_again() -> None:
    assert _choose(_before(3, 2, no_action=True), _before(5, 2)) == (1, 1, 3)


def test_resolved_incidents_are_left_out_as_a_whole_and_once() -> None:
    start = NOW - 5 * DAY
    incident = (start - HOUR, start + 9 * HOUR)
    alerts = (
        _before(3, 2),
        _before(5, 2, incident=incident),
        _before(4.9, 2, incident=incident),
    )
    assert _choose(*alerts, exclude="incidents") == (1, 0, 11)
    assert _choose(*alerts, exclude="alerts") == (3, 0, 8)
    no_action = tuple(_before(5, 2, no_action=True, incident=incident) for _ in range(2))
    assert _choose(*no_action, exclude="incidents") == (0, 1, 0)
    assert _choose(*no_action, alerts[1], exclude="incidents") == (1, 0, 11)


def test_spans_are_read_as_earlier_versions_stored_them() -> None:
    for span in (_before(3, 2), _before(3, 2, True, (NOW - 4 * DAY, None))):
        assert AlertSpan.from_json(span.to_json()) == span
    assert AlertSpan.from_json([1, 5, False, True]) == AlertSpan(1, 5, False, (1, 5))
    assert AlertSpan.from_json([1, None, True, False]) == AlertSpan(1, None, True)


def test_longest_spans_count_again_where_less_than_half_of_the_cycles_would_remain() -> None:
    days = tuple(_before(number, 23) for number in range(1, 29))
    assert _choose(*days) == (28, 0, 28 * 24)
    longer = tuple(_before(number, 24.5) for number in range(40, 44))
    left_out, again, _ = _choose(*days, *longer)
    assert (left_out, again) == (28, 4)
    exclusions = choose_exclusions((*days, *longer), "alerts", TIMES, CYCLES, NOW, SPAN)
    assert set(exclusions.left_out) == set(days)
    assert exclusions.too_few == 4
