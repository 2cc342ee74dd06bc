"""Back-tests of a rule: its events and alerts over the archive, newest day first."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from uuid import UUID

import numpy as np

from archiver.time_range import TimeRange
from archiver.times import Micros
from moirae.alerts import (
    UNSET,
    AlertLifetime,
    Event,
    EventColumns,
    LifetimeColumns,
    evaluate_in_order,
    fold_columns,
    make_alerting_rule,
)
from moirae.backtest.alert_columns import AlertColumns
from moirae.backtest.alerts import BacktestAlert
from moirae.backtest.archive import BacktestArchive
from moirae.backtest.backtest_events import BacktestEvents
from moirae.backtest.slices import BacktestRange, choose_days
from moirae.evaluation.plan import ActiveRule
from moirae.history import event_overlap
from moirae.rules import find_alert_readers
from moirae.rules.requests import where_needs_alerts
from recall.query import Shape


@dataclass
class Backtest:
    """A back-test of one rule. `evaluate` may be left at any time: `fold_alerts` is of what is done."""

    rule: ActiveRule
    archive: BacktestArchive
    range: BacktestRange
    events: BacktestEvents = field(default_factory=BacktestEvents)
    done_from: Micros | None = None
    """The start of the slices that are evaluated."""
    error: Exception | None = None
    """Why the rule is not evaluated any further."""
    _verdicts: dict[UUID, bool | None] = field(default_factory=dict)
    """What `where` says of first events of alerts that were listed before."""

    def evaluate(self) -> Iterator[TimeRange]:
        """Evaluate slice by slice, newest first, and yield each. Raises the error of the rule."""
        for time_range in evaluate_together([self]):
            if self.error is not None:
                raise self.error
            yield time_range

    def add(self, outcome: Sequence[EventColumns] | Exception, done_from: Micros) -> None:
        """Add what the next slice gave."""
        if isinstance(outcome, Exception):
            self.error = outcome
            return
        if self.rule.is_absence:
            # Silence after the end of the input is not absence; while other streams go on, it is.
            newest = max(self.archive.newest.values())
            outcome = [part.select(np.flatnonzero(part.times <= newest)) for part in outcome]
        self.events.add(outcome)
        self.done_from = done_from

    def count_events(self) -> int:
        """The events of the range, without those of the overlap before it."""
        return int((self.events.times >= self.range.start).sum())

    def fold_alerts(self) -> AlertColumns:
        """The alerts that start in the slices that are evaluated."""
        alerting_rule = make_alerting_rule(self.rule.definition)
        times, key_numbers = self.events.times, self.events.key_numbers
        alerts = fold_columns(times, key_numbers, alerting_rule.timing, self.range.end)
        done_from = self.range.end if self.done_from is None else self.done_from
        alerts = alerts.select(np.flatnonzero(alerts.starts >= done_from))
        is_hidden = np.zeros(len(alerts.first), bool)
        if self.evaluates_where:
            fired = np.flatnonzero(alerts.fired != UNSET)
            first_events = self.events.make_events(alerts.first[fired])
            if where_needs_alerts(self.rule.definition, self.rule.tables):
                is_hidden[fired] = self._find_hidden_in_order(first_events, alerts.select(fired))
            else:
                is_hidden[fired] = self._find_hidden(first_events)
        return AlertColumns(alerting_rule, self.events, alerts, is_hidden)

    def _find_hidden_in_order(
        self, first_events: Sequence[Event], alerts: LifetimeColumns
    ) -> list[bool]:
        """As `_find_hidden`, where verdicts depend on the alerts before, as far as they are evaluated."""
        lifetimes = [
            AlertLifetime(event.eid, starts, last, events, fired, None if ended == UNSET else ended)
            for event, starts, last, events, fired, ended in zip(
                first_events, *(column.tolist() for column in alerts[1:]), strict=True
            )
        ]
        evaluate = partial(self.archive.finder.evaluate_conditions, self.rule)
        verdicts = evaluate_in_order(zip(first_events, lifetimes, strict=True), evaluate)
        return [verdicts[event.eid] is False for event in first_events]

    def _find_hidden(self, first_events: Sequence[Event]) -> list[bool]:
        """Of which first events of alerts `where` is false."""
        new = [event for event in first_events if event.eid not in self._verdicts]
        if new:
            self._verdicts |= self.archive.finder.evaluate_conditions(self.rule, new)
        return [self._verdicts[event.eid] is False for event in first_events]

    def list_alerts(self) -> list[BacktestAlert]:
        """The alerts that start in the slices that are evaluated, by their start."""
        return self.fold_alerts().list_all()

    @property
    def evaluates_where(self) -> bool:
        """Whether the rule has a `where`, over recalls of the first event of each alert."""
        return self.rule.spec.where is not None and not self.rule.recalls_every_event


def evaluate_together(tests: Sequence[Backtest]) -> Iterator[TimeRange]:
    """Evaluate tests over one range of one archive, slice by slice, newest first.

    The first slice is a day; while slices are quick, the next ones have more. What differs in
    constants alone is one pass. A test that fails has its error.
    """
    finder, test_range = tests[0].archive.finder, tests[0].range
    time_range = test_range.slice_before(None, 1)
    days = 1
    while time_range is not None:
        assert time_range.start is not None
        started_at, event_count = time.monotonic(), _count_events(tests)
        done_from = max(time_range.start, test_range.start)
        for members in _group_by_shape(tests):
            # What differs in `where` or labels alone has the same events.
            rules = {test.rule.version: test.rule for test in members}
            outcomes = finder.find_event_columns(list(rules.values()), time_range)
            for test in members:
                test.add(outcomes[rules[test.rule.version]], done_from)
        days = choose_days(days, time.monotonic() - started_at, _count_events(tests) - event_count)
        yield TimeRange(done_from, time_range.end)
        time_range = test_range.slice_before(done_from, days)


def _count_events(tests: Sequence[Backtest]) -> int:
    return sum(len(test.events) for test in tests)


def _group_by_shape(tests: Sequence[Backtest]) -> Iterable[Sequence[Backtest]]:
    """The tests that have not failed, by shape."""
    groups: dict[Shape, list[Backtest]] = {}
    for test in tests:
        if test.error is None:
            groups.setdefault(test.rule.shape, []).append(test)
    return groups.values()


def find_notes(rule: ActiveRule, *, has_alerts: bool = True) -> list[str]:
    """What of a rule a back-test leaves out. `has_alerts`: see `BacktestArchive`."""
    notes: list[str] = []
    readers = find_alert_readers(rule.spec)
    if readers and not has_alerts:
        names = ", ".join(sorted(readers))
        notes.append(f"files have no alerts: contexts that read alerts have no rows: {names}")
    if rule.spec.where is not None and rule.recalls_every_event:
        notes.append("where is not evaluated, since the rule has recall_on: every")
    if where_needs_alerts(rule.definition, rule.tables):
        notes.append(
            "norms leave out the alerts of the range only, not those before it, and resolutions "
            "are not taken into account"
        )
    if rule.spec.on_silence == "hold":
        notes.append("on_silence: hold is not evaluated: alerts end as with resolve")
    return notes


def plan_backtest(
    rule: ActiveRule,
    archive: BacktestArchive,
    choose_start: Callable[[Micros], Micros],
    end: Micros | None,
) -> BacktestRange | None:
    """The range of a back-test; None: nothing that the rule reads is archived and settled.

    `choose_start`: by the newest row. `end`: None: up to which live rules are settled.
    """
    streams = rule.shape.streams
    horizon = rule.shape.horizon(archive.watermarks)
    if horizon is None or not streams <= archive.newest.keys():
        return None
    newest = max(archive.newest[name] for name in streams)
    # An event may be earlier than its rows: at the start of a window.
    oldest = min(archive.oldest[name] for name in streams) - rule.shape.lag
    end = horizon if end is None else min(end, horizon)
    start = max(choose_start(newest), oldest)
    if start >= end:
        return None
    overlap = rule.keep_firing_for + event_overlap(rule.definition).before
    return BacktestRange(start, end, newest, overlap)


def plan_together(ranges: Sequence[BacktestRange]) -> BacktestRange | None:
    """The range that all of some tests have; None: there is none."""
    if not ranges:
        return None
    start = max(item.start for item in ranges)
    end = min(item.end for item in ranges)
    if start >= end:
        return None
    overlap = max(item.overlap for item in ranges)
    return replace(ranges[0], start=start, end=end, overlap=overlap)
