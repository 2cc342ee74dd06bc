"""The alerts of a back-test by columns: objects are made only of those that are shown. No I/O."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from archiver.times import Micros, MicrosArray
from moirae.alerts import UNSET, AlertingRule, AlertLifetime, Event, LifetimeColumns, Positions
from moirae.backtest.alerts import BacktestAlert, make_backtest_alert
from moirae.backtest.backtest_events import BacktestEvents
from moirae.notify import make_alert_labels


class ShownAlerts(NamedTuple):
    """Alerts that fired and are not hidden. `ended`: beyond all times if an alert still fires.

    `labels`: each set of labels once; `label_numbers`: of each alert, the position of its set there.
    """

    fired: MicrosArray
    ended: MicrosArray
    labels: Sequence[Mapping[str, str]]
    label_numbers: Positions


@dataclass(frozen=True)
class AlertColumns:
    """Alerts, fired or not. `events`: those that `lifetimes.first` counts.

    `is_hidden`: of each alert, whether it has fired and `where` is false for it.
    """

    alerting_rule: AlertingRule
    events: BacktestEvents
    lifetimes: LifetimeColumns
    is_hidden: npt.NDArray[np.bool_]

    @property
    def is_fired(self) -> npt.NDArray[np.bool_]:
        """Of each alert."""
        return np.not_equal(self.lifetimes.fired, UNSET)

    @property
    def shown(self) -> Positions:
        """The positions of the alerts that fired and are not hidden."""
        return np.flatnonzero(self.is_fired & ~self.is_hidden)

    def find_shown(self) -> ShownAlerts:
        """The alerts that are shown, by key and start."""
        lifetimes = self.lifetimes.select(self.shown)
        key_numbers, label_numbers = np.unique(
            self.events.key_numbers[lifetimes.first], return_inverse=True
        )
        labels: list[Mapping[str, str]] = []
        for number in key_numbers.tolist():
            key = self.events.keys[number].values
            labels.append(make_alert_labels(self.alerting_rule.labels, key))
        ended = np.where(lifetimes.ended == UNSET, np.iinfo(np.int64).max, lifetimes.ended)
        return ShownAlerts(lifetimes.fired, ended, labels, label_numbers)

    def find_shown_times(self) -> MicrosArray:
        """When the alerts that are shown fired, ascending."""
        return np.sort(self.lifetimes.fired[self.shown])

    def count_labels(self) -> Mapping[str, Counter[str]]:
        """How many of the alerts that are shown have each value of each label."""
        shown = self.find_shown()
        counts = np.bincount(shown.label_numbers, minlength=len(shown.labels)).tolist()
        values: dict[str, Counter[str]] = {}
        for labels, count in zip(shown.labels, counts, strict=True):
            for name, value in labels.items():
                values.setdefault(name, Counter())[value] += count
        return values

    def select(self, positions: Positions) -> "AlertColumns":
        """The alerts at some positions."""
        selected = self.lifetimes.select(positions)
        return replace(self, lifetimes=selected, is_hidden=self.is_hidden[positions])

    @property
    def shown_by_start(self) -> Positions:
        """As `shown`, by start."""
        return self.shown[np.argsort(self.lifetimes.starts[self.shown], kind="stable")]

    def list_all(self) -> list[BacktestAlert]:
        """All alerts by start, then by ID."""
        return _sort(self.make_alerts(np.arange(len(self.is_hidden))))

    def list_newest(self, count: int) -> list[BacktestAlert]:
        """The last ones of those that are shown, by start, then by ID."""
        starts = self.lifetimes.starts[self.shown]
        if len(starts) > count:
            # With all that start at the same time: their IDs decide.
            earliest = np.partition(starts, len(starts) - count)[len(starts) - count]
            return _sort(self.make_alerts(self.shown[starts >= earliest]))[-count:]
        return _sort(self.make_alerts(self.shown))

    def make_alerts(self, positions: Positions) -> list[BacktestAlert]:
        """The alerts at some positions, in that order."""
        selected = self.lifetimes.select(positions)
        events = self.events.make_events(selected.first)
        alerts: list[BacktestAlert] = []
        for event, lifetime, is_hidden in zip(
            events,
            _make_lifetimes(events, selected),
            self.is_hidden[positions].tolist(),
            strict=True,
        ):
            alerts.append(
                make_backtest_alert(self.alerting_rule, event, lifetime, is_hidden=is_hidden)
            )
        return alerts


def _sort(alerts: list[BacktestAlert]) -> list[BacktestAlert]:
    return sorted(alerts, key=lambda alert: (alert.starts_at, str(alert.id)))


def _make_lifetimes(first_events: Sequence[Event], columns: LifetimeColumns) -> list[AlertLifetime]:
    values = zip(*(column.tolist() for column in columns[1:]), strict=True)
    lifetimes: list[AlertLifetime] = []
    for event, (starts, last, events, fired, ended) in zip(first_events, values, strict=True):
        times = (_optional(fired), _optional(ended))
        lifetimes.append(AlertLifetime(event.eid, starts, last, events, *times))
    return lifetimes


def _optional(time: Micros) -> Micros | None:
    return None if time == UNSET else time
