"""Events and alerts of rules over the input of a test, at any of its times."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import NamedTuple
from uuid import UUID

from archiver.time_range import TimeRange
from archiver.times import Micros
from moirae.alerts import (
    Event,
    FoldedAlert,
    evaluate_in_order,
    find_spans,
    fold_alerts,
    make_alerting_rule,
)
from moirae.evaluation.plan import ActiveRule
from moirae.history import PastFinder
from moirae.rule_tests.stages import RuleTestStages
from moirae.rules.requests import where_needs_alerts
from recall.norms import AlertSpan


class PastEvaluators(NamedTuple):
    """What evaluates rules and stages over the input of a test."""

    finder: PastFinder
    stages: RuleTestStages


class InputPast:
    """What rules make of the input of a test. Each rule is evaluated once."""

    def __init__(
        self,
        open_evaluators: Callable[[], PastEvaluators],
        start: Micros,
        time_range: TimeRange,
        events: Mapping[str, Sequence[Event]],
    ) -> None:
        """`start`: of the test. `time_range`: of all events that are asked for.

        `open_evaluators`: once they are needed. `events`: of rules that are evaluated, by name.
        """
        self._open_evaluators = open_evaluators
        self.start = start
        self.range = time_range
        self._events = dict(events)

    @cached_property
    def _evaluators(self) -> PastEvaluators:
        return self._open_evaluators()

    @property
    def finder(self) -> PastFinder:
        """Evaluates rules, contexts and recalls."""
        return self._evaluators.finder

    @property
    def stages(self) -> RuleTestStages:
        """Evaluates stages."""
        return self._evaluators.stages

    def events(self, rule: ActiveRule, until: Micros) -> list[Event]:
        """The events of a rule up to a time, inclusive. Raises `RuleFailed`."""
        if rule.name not in self._events:
            self._events[rule.name] = self.finder.find_tried_events(rule, self.range)
        return [event for event in self._events[rule.name] if event.ts <= until]

    def alerts(self, rule: ActiveRule, until: Micros) -> list[FoldedAlert]:
        """The alerts of a rule at a time."""
        timing = make_alerting_rule(rule.definition).timing
        return fold_alerts(self.events(rule, until), timing, until)

    def is_hidden(self, rule: ActiveRule, alert: FoldedAlert) -> bool:
        """Whether `where` is false for a fired alert."""
        if rule.spec.where is None or alert.lifetime.fired is None:
            return False
        if where_needs_alerts(rule.definition, rule.tables):
            verdicts = self._evaluate_in_order(rule, alert.first_event.ts)
        else:
            verdicts = self.finder.evaluate_conditions(rule, [alert.first_event])
        return verdicts[alert.first_event.eid] is False

    def find_spans(self, rule: ActiveRule, event: Event) -> tuple[AlertSpan, ...]:
        """Those of the alerts of an event's key that are not hidden, as they were known then."""
        alerts = [
            alert
            for alert in self.alerts(rule, event.ts)
            if alert.first_event.fingerprint == event.fingerprint
        ]
        if rule.spec.where is not None:
            verdicts = self._evaluate_in_order(rule, event.ts)
            alerts = [a for a in alerts if verdicts.get(a.first_event.eid) is not False]
        return find_spans([alert.lifetime for alert in alerts], event.ts)

    def _evaluate_in_order(self, rule: ActiveRule, until: Micros) -> dict[UUID, bool | None]:
        """What `where` says of the alerts that began by a time and fired."""
        fired = [
            (alert.first_event, alert.lifetime)
            for alert in self.alerts(rule, self.range.end or until)
            if alert.lifetime.fired is not None and alert.lifetime.starts <= until
        ]
        return evaluate_in_order(fired, partial(self.finder.evaluate_conditions, rule))
