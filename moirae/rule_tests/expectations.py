"""Compares what a test expects with what its rules make of its input."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from functools import partial
from typing import Any, NamedTuple

from archiver.ingest import parse_iso_time
from archiver.times import Micros, duration_to_micros, from_micros
from moirae.alerts import Event, FoldedAlert, make_alerting_rule
from moirae.config import format_duration
from moirae.errors import RuleFailed
from moirae.evaluation.plan import ActiveRule
from moirae.notify import make_alert_labels
from moirae.rule_tests.comparison import find_difference, format_row, row_matches
from moirae.rule_tests.coverage import CoveredItem
from moirae.rule_tests.event_outputs import EventOutputs, Rows
from moirae.rule_tests.input_past import InputPast
from moirae.rule_tests.inputs import RuleTestOrigin, resolve_time
from moirae.rule_tests.model import AlertTest, ExpectedAlert, ExpectedNotification, Row
from moirae.rule_tests.notifications import (
    MessageMatcher,
    RuleTestMessages,
    format_expected,
    format_message,
)
from moirae.rules import HistoryRecall, SimilarRecall
from recall.stages import StageFailure


class UnmetExpectation(NamedTuple):
    """An expectation that does not hold.

    `place`: as `file:line:column`. `lines`: what differs; `-` was expected, `+` came instead.
    """

    place: str
    message: str
    lines: Sequence[str]


class ActualAlert(NamedTuple):
    """An alert at the time of an expectation."""

    state: str
    labels: dict[str, str]
    annotations: dict[str, str]

    def __str__(self) -> str:
        return f"{self.state} {format_row(self.labels)} {format_row(self.annotations)}"


class _EventTables(NamedTuple):
    """Tables of an event: what they are, their names, and the rows of one."""

    what: str
    names: Sequence[str]
    read: Callable[[str], Rows | StageFailure]


@dataclass
class Expectation:
    """What a test expects of the rules of a name at a time.

    `covered`: what was compared, once `find_failures` has ended.
    """

    test: AlertTest
    origin: RuleTestOrigin
    rules: Sequence[ActiveRule]
    past: InputPast
    messages: RuleTestMessages
    covered: set[CoveredItem] = field(default_factory=set)

    @property
    def _until(self) -> Micros:
        return self.past.start + duration_to_micros(self.test.eval_time)

    def find_failures(self) -> Iterator[UnmetExpectation]:
        """What differs; a rule that fails on the input is one failure."""
        try:
            yield from self._find_failures()
        except RuleFailed as error:
            yield UnmetExpectation(self.origin.locate("alertname"), str(error), [])

    def _find_failures(self) -> Iterator[UnmetExpectation]:
        test = self.test
        self.covered.update(CoveredItem(rule.name, "rule") for rule in self.rules)
        if expects_alerts(test):
            yield from self._compare_alerts(test.exp_alerts or ())
        if test.exp_events is not None:
            rows = [
                _event_row(event)
                for rule in self.rules
                for event in self.past.events(rule, self._until)
            ]
            yield from self._compare("exp_events", "events", test.exp_events, rows)
        if test.is_about_event:
            yield from self._compare_event_tables()
        if test.exp_notifications is not None:
            yield from self._compare_messages(test.exp_notifications)

    def _compare_alerts(self, expected: Sequence[ExpectedAlert]) -> Iterator[UnmetExpectation]:
        states = {"firing", *(alert.state for alert in expected)}
        actual: list[ActualAlert] = []
        for rule in self.rules:
            alerting_rule = make_alerting_rule(rule.definition)
            for alert in self.past.alerts(rule, self._until):
                state = _state(alert)
                if state not in states or self._is_hidden(rule, alert):
                    continue
                event = alert.first_event
                labels = make_alert_labels(alerting_rule.labels, event.key)
                del labels["alertname"]
                annotations = dict(alerting_rule.render_annotations(event))
                actual.append(ActualAlert(state, labels, annotations))
        expected_alerts = list(map(self._resolve_alert, expected))
        is_subset = self.test.match == "contains"
        matches = partial(_alert_matches, is_subset)
        difference = find_difference(expected_alerts, actual, matches, allows_others=is_subset)
        if difference:
            lines = [f"- {expected_alerts[number]}" for number in difference.missing]
            lines += [f"+ {actual[number]}" for number in difference.unexpected]
            yield self._fail("exp_alerts", "alerts", lines, len(actual))

    def _resolve_alert(self, alert: ExpectedAlert) -> ActualAlert:
        """Labels may name the rule, as they do in tests of Prometheus: other names match nothing."""
        labels = dict(alert.exp_labels)
        if labels.get("alertname") in {rule.spec.alert for rule in self.rules}:
            del labels["alertname"]
        return ActualAlert(alert.state, labels, dict(alert.exp_annotations))

    def _is_hidden(self, rule: ActiveRule, alert: FoldedAlert) -> bool:
        is_hidden = self.past.is_hidden(rule, alert)
        if rule.spec.where is not None and alert.lifetime.fired is not None:
            self.covered.add(CoveredItem.of_condition(rule.name, not is_hidden))
        return is_hidden

    def _compare_messages(
        self, expected: Sequence[ExpectedNotification]
    ) -> Iterator[UnmetExpectation]:
        start = from_micros(self.past.start)
        actual = self.messages.select(self.rules, from_micros(self._until))
        for rule in self.rules:
            for alert in self.past.alerts(rule, self._until):
                self._is_hidden(rule, alert)
        is_subset = self.test.match == "contains"
        matcher = MessageMatcher(self.rules[0].spec.alert, start, is_subset)
        difference = find_difference(expected, actual, matcher.matches, allows_others=is_subset)
        if difference:
            lines = [f"- {format_expected(expected[number])}" for number in difference.missing]
            lines += [
                f"+ {format_message(actual[number], start)}" for number in difference.unexpected
            ]
            yield self._fail("exp_notifications", "messages about alerts", lines, len(actual))

    def _compare_event_tables(self) -> Iterator[UnmetExpectation]:
        """Contexts, answers, similar events and stages of one event."""
        chosen = self._choose_event()
        if isinstance(chosen, UnmetExpectation):
            yield chosen
            return
        rule, event = chosen
        outputs = EventOutputs(self.past, rule, event, self._until)
        for key, tables in self._list_event_tables(rule, outputs):
            for name, expected in getattr(self.test, key).items():
                path = (key, name)
                if name not in tables.names:
                    yield self._fail_name(*path, tables.what, tables.names)
                    continue
                rows = tables.read(name)
                if key == "exp_stages":
                    self.covered.add(CoveredItem.of_stage(rule.name, name))
                if isinstance(rows, StageFailure):
                    message = f"stage {name} failed: {rows.reason}"
                    yield UnmetExpectation(self.origin.locate(*path), message, [])
                else:
                    yield from self._compare(path, f"rows of {name}", expected, rows)

    def _list_event_tables(
        self, rule: ActiveRule, outputs: EventOutputs
    ) -> Iterator[tuple[str, _EventTables]]:
        """The tables of which something is expected, by the key of the expectation."""
        test, recalls = self.test, rule.definition.recalls.items()
        if test.exp_contexts is not None:
            contexts = outputs.tables
            names = list(contexts)
            yield (
                "exp_contexts",
                _EventTables("contexts and surroundings", names, contexts.__getitem__),
            )
        if test.exp_recalls is not None:
            names = [name for name, recall in recalls if isinstance(recall, HistoryRecall)]
            answers = outputs.answer([name for name in test.exp_recalls if name in names])
            yield (
                "exp_recalls",
                _EventTables("SQL recalls", names, lambda name: answers.get(name, ())),
            )
        if test.exp_similar is not None:
            names = [name for name, recall in recalls if isinstance(recall, SimilarRecall)]
            yield "exp_similar", _EventTables("similarity recalls", names, outputs.find_similar)
        if test.exp_stages is not None:
            names = [stage.stream for stage in rule.spec.then]
            yield (
                "exp_stages",
                _EventTables("stages", names, lambda name: outputs.stages[name]),
            )

    def _choose_event(self) -> tuple[ActiveRule, Event] | UnmetExpectation:
        """The event that contexts and answers are expected of."""
        candidates: list[tuple[ActiveRule, Event]] = []
        for rule in self.rules:
            events = [
                alert.first_event
                for alert in self.past.alerts(rule, self._until)
                if alert.lifetime.fired is not None
            ]
            if rule.definition.recalls_every_event or self.test.event is not None:
                events = self.past.events(rule, self._until)
            candidates += [(rule, event) for event in events]
        selection = self.test.event
        if selection is not None:
            start = self.past.start
            candidates = [
                (rule, event) for rule, event in candidates if _is_event(selection, event, start)
            ]
        if len(candidates) == 1:
            return candidates[0]
        lines = [f"+ {format_row(_event_row(event))}" for _, event in candidates]
        message = f"{len(candidates)} events match instead of one; name it with `event`"
        key = "event" if selection is not None else "alertname"
        return UnmetExpectation(self.origin.locate(key), message, lines)

    def _compare(
        self,
        path: str | tuple[str, str],
        what: str,
        expected: Sequence[Row],
        actual: Sequence[Row],
    ) -> Iterator[UnmetExpectation]:
        expected_rows = [_resolve_row(row, self.past.start) for row in expected]
        difference = find_difference(
            expected_rows,
            actual,
            lambda row, other: row_matches(row, other, self.test.tolerance),
            allows_others=self.test.match == "contains",
        )
        if difference:
            lines = [f"- {format_row(expected_rows[number])}" for number in difference.missing]
            lines += [f"+ {format_row(actual[number])}" for number in difference.unexpected]
            yield self._fail(path, what, lines, len(actual))

    def _fail(
        self, path: str | tuple[str, str], what: str, lines: Sequence[str], count: int
    ) -> UnmetExpectation:
        keys = (path,) if isinstance(path, str) else path
        time = format_duration(self.test.eval_time)
        message = f"{what} of {self.test.alertname} at {time} differ ({count} came)"
        return UnmetExpectation(self.origin.locate(*keys), message, lines)

    def _fail_name(
        self, key: str, name: str, what: str, names: Sequence[str] | Any
    ) -> UnmetExpectation:
        available = ", ".join(names) or "none"
        message = f"{self.test.alertname} has no {name!r}; its {what} are {available}"
        return UnmetExpectation(self.origin.locate(key, name), message, [])


def _state(alert: FoldedAlert) -> str | None:
    """None: it ended before it fired."""
    if alert.lifetime.fired is None:
        return "pending" if alert.lifetime.ended is None else None
    return "firing" if alert.lifetime.ended is None else "resolved"


def _alert_matches(is_subset: bool, expected: ActualAlert, actual: ActualAlert) -> bool:
    if expected.state != actual.state:
        return False
    if is_subset:
        return (
            expected.labels.items() <= actual.labels.items()
            and expected.annotations.items() <= actual.annotations.items()
        )
    return expected == actual


def _event_row(event: Event) -> dict[str, Any]:
    return {"ts": from_micros(event.ts).isoformat(), **event.attributes}


def _is_event(expected: Row, event: Event, start: Micros) -> bool:
    return row_matches(_resolve_row(expected, start), _event_row(event), None)


def _resolve_row(row: Row, start: Micros) -> dict[str, Any]:
    """Row with `ts` as an ISO time in UTC."""
    resolved = dict(row)
    if "ts" in resolved:
        resolved["ts"] = _normalize(resolve_time(resolved["ts"], start))
    return resolved


def _normalize(value: Any) -> Any:
    moment = parse_iso_time(value) if isinstance(value, str) else None
    if moment is None:
        return value
    utc = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return utc.isoformat()


def expects_alerts(test: AlertTest) -> bool:
    """Also if there is no other expectation."""
    expectations = (test.exp_events, test.exp_notifications)
    expects_more = test.is_about_event or any(value is not None for value in expectations)
    return test.exp_alerts is not None or not expects_more
