"""Events and alerts of rules over the input of a test, at any of its times."""

from archiver.time_range import TimeRange
from archiver.times import Micros
from moirae.alerts import Event, FoldedAlert, fold_alerts, make_alerting_rule
from moirae.evaluation.plan import ActiveRule
from moirae.history import PastFinder
from moirae.rule_tests.stages import RuleTestStages


class InputPast:
    """What rules make of the input of a test. Each rule is evaluated once."""

    def __init__(
        self, finder: PastFinder, stages: RuleTestStages, start: Micros, time_range: TimeRange
    ) -> None:
        """`start`: of the test. `time_range`: of all events that are asked for."""
        self.finder = finder
        self.stages = stages
        self.start = start
        self.range = time_range
        self._events: dict[str, list[Event]] = {}

    def events(self, rule: ActiveRule, until: Micros) -> list[Event]:
        """The events of a rule up to a time, inclusive."""
        if rule.name not in self._events:
            self._events[rule.name] = self.finder.find_events(rule, self.range)
        return [event for event in self._events[rule.name] if event.ts <= until]

    def alerts(self, rule: ActiveRule, until: Micros) -> list[FoldedAlert]:
        """The alerts of a rule at a time."""
        timing = make_alerting_rule(rule.definition).timing
        return fold_alerts(self.events(rule, until), timing, until)

    def is_hidden(self, rule: ActiveRule, alert: FoldedAlert) -> bool:
        """Whether `where` is false for a fired alert."""
        if rule.spec.where is None or alert.lifetime.fired is None:
            return False
        verdicts = self.finder.evaluate_conditions(rule, [alert.first_event])
        return verdicts[alert.first_event.eid] is False
