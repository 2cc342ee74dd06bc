"""Runs rule tests: input rows in a scratch archive, evaluated by the engines of live rules."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from archiver.time_range import TimeRange
from archiver.times import duration_to_micros, micros_column
from moirae.config import Settings, stream_schema
from moirae.errors import Problem, ProblemsError
from moirae.evaluation.plan import ActiveRule
from moirae.history import PastEngines, PastFinder, RelationVersions
from moirae.rule_tests.coverage import CoveredItem
from moirae.rule_tests.expectations import Expectation, UnmetExpectation, expects_alerts
from moirae.rule_tests.input_past import InputPast
from moirae.rule_tests.inputs import RuleTestInput, RuleTestOrigin, read_input
from moirae.rule_tests.model import AlertTest, RuleTest
from moirae.rule_tests.notifications import RuleTestMessages
from moirae.rule_tests.scratch_archive import write_archive
from moirae.rule_tests.stages import RuleTestStages
from moirae.rules import Definition


class RuleTester:
    """Runs tests of the rules of one set of files. Replaces temporary views of the session."""

    def __init__(
        self, settings: Settings, definitions: Sequence[Definition], spark: SparkSession
    ) -> None:
        self._settings = settings
        self._definitions = definitions
        self._spark = spark
        self._schemas = [stream_schema(*item) for item in settings.streams.items()]
        self._engines = PastEngines(
            spark,
            {schema.name: schema.query_columns for schema in self._schemas},
            {name: relation.columns for name, relation in settings.relations.items()},
            settings.recall.engine,
        )
        self._rules = {
            definition.name: ActiveRule.of_workspace(definition, settings)
            for definition in definitions
        }
        self.covered: set[CoveredItem] = set()
        """What the tests that ran expected something of."""

    def run(self, test: RuleTest, origin: RuleTestOrigin) -> list[UnmetExpectation]:
        """What does not hold. Raises `ProblemsError` if the test or its input is not valid."""
        test_input = read_input(test, self._settings, origin)
        rules_by_test = self._find_rules(test, origin)
        with TemporaryDirectory(prefix="moirae-rule-test-") as folder:
            past = self._open_past(Path(folder), test, test_input)
            messages = RuleTestMessages(self._settings, self._list_alerting(), past)
            failures: list[UnmetExpectation] = []
            for number, rules in enumerate(rules_by_test):
                path = (*origin.path, "alert_rule_test", number)
                expected = RuleTestOrigin(origin.document, path)
                expectation = Expectation(
                    test.alert_rule_test[number], expected, rules, past, messages
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

    def _find_rules(self, test: RuleTest, origin: RuleTestOrigin) -> list[list[ActiveRule]]:
        """The rules of each expectation. Raises `ProblemsError`."""
        problems: list[Problem] = []
        rules_by_test: list[list[ActiveRule]] = []
        for number, expectation in enumerate(test.alert_rule_test):
            definitions = self.find_definitions(expectation.alertname)
            path = ("alert_rule_test", number, "alertname")
            if not definitions:
                names = ", ".join(sorted(rule.spec.alert for rule in self._definitions))
                problems.append(origin.make_problem(f"no such rule; rules are {names}", *path))
            for definition in definitions:
                reason = _find_unsupported(definition, expectation)
                if reason is not None:
                    problems.append(origin.make_problem(f"{definition.name}: {reason}", *path))
            rules_by_test.append([self._rules[definition.name] for definition in definitions])
        if problems:
            raise ProblemsError(problems)
        return rules_by_test

    def _open_past(self, folder: Path, test: RuleTest, test_input: RuleTestInput) -> InputPast:
        """What rules make of the input, in an archive in a folder."""
        columns = {name: relation.columns for name, relation in self._settings.relations.items()}
        reader = write_archive(folder, self._schemas, test_input.rows)
        relations = RelationVersions(test_input.relations.__getitem__, frozenset(columns), columns)
        finder = PastFinder(self._spark, reader, relations, engines=self._engines)
        stages = RuleTestStages.create(self._settings, self._spark, reader, relations)
        return InputPast(finder, stages, test_input.start, self._find_range(test, test_input))

    def _find_range(self, test: RuleTest, test_input: RuleTestInput) -> TimeRange:
        """From the first row to the last expectation, inclusive."""
        offset = max(expectation.eval_time for expectation in test.alert_rule_test)
        times = [test_input.start]
        for schema in self._schemas:
            rows = test_input.rows.get(schema.name)
            if rows is not None and len(rows):
                times.append(int(micros_column(rows, schema.time).min()))
        return TimeRange(min(times), test_input.start + duration_to_micros(offset) + 1)


def _find_unsupported(definition: Definition, expectation: AlertTest) -> str | None:
    """Why an expectation of a rule cannot be tested; None: it can."""
    reason = _find_untestable(definition)
    if reason is None and (
        expects_alerts(expectation) or expectation.exp_notifications is not None
    ):
        reason = _find_untestable_alerts(definition)
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
