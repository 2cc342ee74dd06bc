"""Runs rule tests: input rows in a scratch archive, evaluated by the engines of live rules."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from archiver.time_range import TimeRange
from archiver.times import duration_to_micros, micros_column
from moirae.alerts import Event
from moirae.config import Settings, stream_schema
from moirae.errors import Problem
from moirae.evaluation.plan import ActiveRule
from moirae.history import PastEngines, PastFinder, RelationVersions
from moirae.rule_tests.coverage import CoveredItem
from moirae.rule_tests.expectations import Expectation, UnmetExpectation, expects_alerts
from moirae.rule_tests.input_batches import InputBatch, InputReader, RuleTestInput
from moirae.rule_tests.input_past import InputPast, PastEvaluators
from moirae.rule_tests.inputs import RuleTestOrigin
from moirae.rule_tests.model import AlertTest, RuleTest
from moirae.rule_tests.notifications import RuleTestMessages
from moirae.rule_tests.scratch_archive import ScratchReader
from moirae.rule_tests.shared_events import find_shared_events
from moirae.rule_tests.stages import RuleTestStages
from moirae.rules import Definition, find_alert_readers


@dataclass(frozen=True)
class _PlannedTest:
    """`rules`: of each expectation. `problems`: why the test cannot run."""

    input: RuleTestInput
    rules: Sequence[Sequence[ActiveRule]]
    problems: Sequence[Problem]


class RuleTester:
    """Runs tests of the rules of one set of files. Replaces temporary views of the session."""

    def __init__(
        self, settings: Settings, definitions: Sequence[Definition], spark: SparkSession
    ) -> None:
        self._settings = settings
        self._definitions = definitions
        self._spark = spark
        self._input_reader = InputReader(settings)
        self._schemas = [stream_schema(*item) for item in settings.streams.items()]
        self._relation_columns = {
            name: relation.columns for name, relation in settings.relations.items()
        }
        self._engines = PastEngines(
            spark,
            {schema.name: schema.query_columns for schema in self._schemas},
            self._relation_columns,
            settings.recall.engine,
        )
        self._rules = {
            definition.name: ActiveRule.of_workspace(definition, settings)
            for definition in definitions
        }
        self.covered: set[CoveredItem] = set()
        """What the tests that ran expected something of."""

    def run(
        self, tests: Iterable[tuple[RuleTest, RuleTestOrigin]]
    ) -> Iterator[Sequence[UnmetExpectation]]:
        """What does not hold of each test, in their order, or why it cannot run."""
        for batch in self._input_reader.read(tests):
            planned = list(map(self._plan, batch.inputs))
            events = self._find_shared_events(batch, planned)
            for number, test in enumerate(planned):
                if test.problems:
                    yield [_describe_problem(problem) for problem in test.problems]
                else:
                    yield self._run(test, events[number])

    def _find_shared_events(
        self, batch: InputBatch, planned: Sequence[_PlannedTest]
    ) -> Sequence[Mapping[str, Sequence[Event]]]:
        """Of each test the events of its rules, by name, where one query is for all tests."""
        ranges: dict[ActiveRule, dict[int, TimeRange]] = {}
        for number, test in enumerate(planned):
            if not test.problems:
                for rule in chain.from_iterable(test.rules):
                    ranges.setdefault(rule, {})[number] = self._find_range(test.input)
        events: list[dict[str, Sequence[Event]]] = [{} for _ in planned]
        for rule, rule_ranges in ranges.items():
            shared = find_shared_events(rule, batch, rule_ranges, self._engines)
            for number, rule_events in shared.items():
                events[number][rule.name] = rule_events
        return events

    def _run(
        self, planned: _PlannedTest, events: Mapping[str, Sequence[Event]]
    ) -> Sequence[UnmetExpectation]:
        test_input = planned.input
        with ExitStack() as stack:
            past = InputPast(
                lambda: self._open_evaluators(test_input, stack),
                test_input.start,
                self._find_range(test_input),
                events,
            )
            messages = RuleTestMessages(self._settings, self._list_alerting(), past)
            failures: list[UnmetExpectation] = []
            for number, rules in enumerate(planned.rules):
                path = (*test_input.origin.path, "alert_rule_test", number)
                expected = RuleTestOrigin(test_input.origin.document, path)
                expectation = Expectation(
                    test_input.test.alert_rule_test[number], expected, rules, past, messages
                )
                failures += expectation.find_failures()
                self.covered |= expectation.covered
            return failures

    def _list_alerting(self) -> list[ActiveRule]:
        """The rules whose alerts can be tested."""
        return [
            self._rules[definition.name]
            for definition in self._definitions
            if _find_untestable(definition) is None and _find_untestable_alerts(definition) is None
        ]

    def find_definitions(self, name: str) -> list[Definition]:
        """The rules of a name, with or without its group."""
        return [
            definition
            for definition in self._definitions
            if name in (definition.name, definition.spec.alert)
        ]

    def _plan(self, test_input: RuleTestInput) -> _PlannedTest:
        """The rules of each expectation. Problems of the input come first."""
        if test_input.problems:
            return _PlannedTest(test_input, [], test_input.problems)
        problems: list[Problem] = []
        rules_by_test: list[list[ActiveRule]] = []
        for number, expectation in enumerate(test_input.test.alert_rule_test):
            definitions = self.find_definitions(expectation.alertname)
            path = ("alert_rule_test", number, "alertname")
            if not definitions:
                names = ", ".join(sorted(rule.spec.alert for rule in self._definitions))
                message = f"no such rule; rules are {names}"
                problems.append(test_input.origin.make_problem(message, *path))
            for definition in definitions:
                reason = _find_unsupported(definition, expectation)
                if reason is not None:
                    message = f"{definition.name}: {reason}"
                    problems.append(test_input.origin.make_problem(message, *path))
            rules_by_test.append([self._rules[definition.name] for definition in definitions])
        return _PlannedTest(test_input, rules_by_test, problems)

    def _open_evaluators(self, test_input: RuleTestInput, stack: ExitStack) -> PastEvaluators:
        """What evaluates rules over the input, in an archive in a folder for some time."""
        folder = stack.enter_context(TemporaryDirectory(prefix="moirae-rule-test-"))
        rows = {name: table for name, table in test_input.rows.items() if len(table)}
        reader = ScratchReader(Path(folder), self._schemas, rows)
        columns = self._relation_columns
        relations = RelationVersions(test_input.relations.__getitem__, frozenset(columns), columns)
        finder = PastFinder(self._spark, reader, relations, engines=self._engines)
        stages = RuleTestStages.create(self._settings, self._spark, reader, relations)
        return PastEvaluators(finder, stages)

    def _find_range(self, test_input: RuleTestInput) -> TimeRange:
        """From the first row to the last expectation, inclusive."""
        offset = max(expectation.eval_time for expectation in test_input.test.alert_rule_test)
        times = [test_input.start]
        for schema in self._schemas:
            rows = test_input.rows.get(schema.name)
            if rows is not None and len(rows):
                times.append(int(micros_column(rows, schema.time).min()))
        return TimeRange(min(times), test_input.start + duration_to_micros(offset) + 1)


def _describe_problem(problem: Problem) -> UnmetExpectation:
    """Its location is as `file:line:column`."""
    parts = (problem.file, problem.line, problem.column)
    location = ":".join(str(part) for part in parts if part is not None)
    return UnmetExpectation(location, problem.message, [])


def _find_unsupported(definition: Definition, expectation: AlertTest) -> str | None:
    """Why an expectation of a rule cannot be tested; None: it can."""
    reason = _find_untestable(definition)
    if reason is None and (
        expects_alerts(expectation) or expectation.exp_notifications is not None
    ):
        reason = _find_untestable_alerts(definition)
    if reason is None and expectation.exp_contexts is not None:
        unknown = find_alert_readers(definition.spec) & expectation.exp_contexts.keys()
        if unknown:
            names = ", ".join(sorted(unknown))
            reason = f"contexts that read alerts cannot be tested yet: {names}"
    return reason


def _find_untestable(definition: Definition) -> str | None:
    """Why nothing of a rule can be tested; None: something can."""
    if definition.reads_revisions:
        return "rules that read streams of recalls or stages cannot be tested yet"
    if definition.spec.external:
        return "its events are posted by other systems; they cannot be tested"
    return None if definition.spec.enabled else "the rule is disabled"


def _find_untestable_alerts(definition: Definition) -> str | None:
    """Why the alerts of a rule cannot be tested; None: they can."""
    if definition.spec.on_silence == "hold":
        return "alerts of rules with on_silence: hold cannot be tested yet; expect exp_events"
    if definition.spec.where is not None and definition.recalls_every_event:
        return "alerts by `where` with recall_on: every cannot be tested yet; expect exp_events"
    return None
