"""Compares what a test expects with what its rules make of its input."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC
from functools import partial
from typing import Any, NamedTuple

from archiver.ingest import parse_iso_time
from archiver.times import Micros, duration_to_micros, from_micros
from moirae.alerts import Event, FoldedAlert, make_alerting_rule
from moirae.config import format_duration
from moirae.evaluation.plan import ActiveRule
from moirae.notify import make_alert_labels
from moirae.rule_tests.comparison import find_difference, row_matches
from moirae.rule_tests.input_past import InputPast
from moirae.rule_tests.inputs import RuleTestOrigin, resolve_time
from moirae.rule_tests.model import AlertTest, ExpectedAlert, Row
from moirae.rules import SqlRecall


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
        return f"{self.state} {_format_row(self.labels)} {_format_row(self.annotations)}"


@dataclass
class Expectation:
    """What a test expects of the rules of a name at a time."""

    test: AlertTest
    origin: RuleTestOrigin
    rules: Sequence[ActiveRule]
    past: InputPast

    @property
    def _until(self) -> Micros:
        return self.past.start + duration_to_micros(self.test.eval_time)

    def find_failures(self) -> Iterator[UnmetExpectation]:
        test = self.test
        if expects_alerts(test):
            yield from self._compare_alerts(test.exp_alerts or ())
        if test.exp_events is not None:
            rows = [
                _event_row(event)
                for rule in self.rules
                for event in self.past.events(rule, self._until)
            ]
            yield from self._compare("exp_events", "events", test.exp_events, rows)
        if test.exp_contexts is not None or test.exp_recalls is not None:
            yield from self._compare_event_tables()

    def _compare_alerts(self, expected: Sequence[ExpectedAlert]) -> Iterator[UnmetExpectation]:
        states = {"firing", *(alert.state for alert in expected)}
        actual: list[ActualAlert] = []
        for rule in self.rules:
            alerting_rule = make_alerting_rule(rule.definition)
            for alert in self.past.alerts(rule, self._until):
                state = _state(alert)
                if state not in states or self.past.is_hidden(rule, alert):
                    continue
                event = alert.first_event
                labels = make_alert_labels(alerting_rule.labels, event.key)
                del labels["alertname"]
                annotations = dict(alerting_rule.render_annotations(event))
                actual.append(ActualAlert(state, labels, annotations))
        expected_alerts = [
            ActualAlert(alert.state, dict(alert.exp_labels), dict(alert.exp_annotations))
            for alert in expected
        ]
        is_subset = self.test.match == "contains"
        matches = partial(_alert_matches, is_subset)
        difference = find_difference(expected_alerts, actual, matches, allows_others=is_subset)
        if difference:
            lines = [f"- {expected_alerts[number]}" for number in difference.missing]
            lines += [f"+ {actual[number]}" for number in difference.unexpected]
            yield self._fail("exp_alerts", "alerts", lines, len(actual))

    def _compare_event_tables(self) -> Iterator[UnmetExpectation]:
        """Contexts and answers of one event."""
        chosen = self._choose_event()
        if isinstance(chosen, UnmetExpectation):
            yield chosen
            return
        rule, event = chosen
        if self.test.exp_contexts is not None:
            computed = self.past.finder.compute_contexts(rule, [event])[event.eid]
            tables = {**computed.contexts, **computed.surroundings}
            for name, expected in self.test.exp_contexts.items():
                path = ("exp_contexts", name)
                if name not in tables:
                    yield self._fail_name(*path, "contexts and surroundings", tables)
                else:
                    yield from self._compare(path, f"rows of {name}", expected, tables[name])
        if self.test.exp_recalls is not None:
            recalls = rule.definition.recalls.items()
            names = [name for name, recall in recalls if isinstance(recall, SqlRecall)]
            answers = self.past.finder.answer_recalls(
                rule, [event], [name for name in self.test.exp_recalls if name in names]
            )
            for name, expected in self.test.exp_recalls.items():
                path = ("exp_recalls", name)
                if name not in names:
                    yield self._fail_name(*path, "SQL recalls", names)
                else:
                    rows = answers.get(event.eid, {}).get(name, ())
                    yield from self._compare(path, f"rows of {name}", expected, rows)

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
        lines = [f"+ {_format_row(_event_row(event))}" for _, event in candidates]
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
            lines = [f"- {_format_row(expected_rows[number])}" for number in difference.missing]
            lines += [f"+ {_format_row(actual[number])}" for number in difference.unexpected]
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


def _format_row(row: Row) -> str:
    return "{" + ", ".join(f"{name}: {value}" for name, value in row.items()) + "}"


def expects_alerts(test: AlertTest) -> bool:
    """Also if there is no other expectation."""
    expectations = (test.exp_events, test.exp_contexts, test.exp_recalls)
    return test.exp_alerts is not None or all(value is None for value in expectations)
