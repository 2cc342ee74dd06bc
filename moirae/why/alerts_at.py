"""The alert of a key that is open at a time, from the events of the rule."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from archiver.time_range import TimeRange
from archiver.times import Micros
from moirae.alerts import Event, FoldedAlert, fold_alerts, make_alerting_rule
from moirae.backtest import BacktestArchive
from moirae.evaluation.plan import ActiveRule

_MIN_SPAN: Micros = 60_000_000


class KeyEvents(NamedTuple):
    """The events of a key up to a time, and the alert that is open then; None: there is none."""

    events: Sequence[Event]
    alert: FoldedAlert | None


def find_open_alert(
    rule: ActiveRule, archive: BacktestArchive, key: Mapping[str, str], at: Micros
) -> KeyEvents:
    """As live would have it at `at`, once all rows up to it are settled.

    Reads as far back as events follow each other. Raises `RuleFailed`.
    """
    timing = make_alerting_rule(rule.definition).timing
    oldest = min(archive.oldest[name] for name in rule.shape.streams) - rule.shape.lag
    newest = max(archive.newest.values())
    span = timing.for_ + 2 * timing.keep_firing_for + _MIN_SPAN
    while True:
        start = at - span
        events = [
            event
            for event in archive.finder.find_tried_events(rule, TimeRange(start, at + 1))
            if has_key(event, key) and not (rule.is_absence and event.ts > newest)
        ]
        alerts = fold_alerts(events, timing, at)
        alert = alerts[-1] if alerts and alerts[-1].lifetime.ended is None else None
        if alert is None or start <= oldest:
            return KeyEvents(events, alert)
        if alert.lifetime.starts - timing.keep_firing_for > start:
            return KeyEvents(events, alert)
        span *= 4


def has_key(event: Event, key: Mapping[str, str]) -> bool:
    """Whether an event has the values of a key, which are given as text."""
    return all(format_value(event.key[name]) == text for name, text in key.items())


def format_value(value: object) -> str:
    """A value of a key as text, as SQL casts it."""
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else str(value)
