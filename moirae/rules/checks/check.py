"""Check rules: the shape of every query, then Spark's analysis of it in the SQL sandbox.

No query is executed. Rules without errors can be deployed.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import structlog
from pyspark.sql.types import StringType, StructType

from moirae.config import Settings
from moirae.errors import Problem, has_errors
from moirae.rules.checks.check_questions import check_questions, find_warnings
from moirae.rules.checks.check_session import CheckSession, StartSpark
from moirae.rules.checks.derived_streams import DerivedStreams, event_views
from moirae.rules.checks.event_columns import require_time_column
from moirae.rules.checks.expected_keys import find_expected_problem
from moirae.rules.checks.rule_streams import RuleStreams
from moirae.rules.checks.rule_warnings import RuleWarning
from moirae.rules.checks.verdict_store import VerdictStore
from moirae.rules.definition import (
    Definition,
    build_event_sql,
    build_event_tables,
    build_rule_tables,
    infer_event_shape,
    revision_tables,
)
from moirae.rules.key_sources import find_hold_problem
from moirae.rules.revision_streams import order_by_reads
from moirae.rules.rule_set import Rule, RuleSet
from moirae.rules.templates import find_attributes
from recall.errors import QueryRejected
from recall.query import (
    Tables,
    Unsupported,
    check_table_count,
    find_outputs,
)
from recall.sandbox import SPARK_LOST, validate_query

_LOG = structlog.get_logger()

_Verdict = tuple[Definition, Sequence[RuleWarning]]


def check_rules(
    start_spark: StartSpark,
    settings: Settings,
    rules: RuleSet,
    unchanged: Iterable[Definition] = (),
) -> tuple[list[Definition], list[Problem]]:
    """Return the definitions of all valid rules, and the problems of all rules.

    Spark is started for what has no stored verdict. `unchanged`: checked rules whose streams these
    may read. An error in any derived stream rejects all rules. Raises one of `SPARK_LOST` if the
    connection to Spark's JVM is lost.
    """
    store = VerdictStore(settings)
    checker = _RuleChecker(CheckSession(start_spark), store, settings, rules, unchanged)
    try:
        return checker.check()
    finally:
        store.save()


class _RuleChecker:
    def __init__(
        self,
        session: CheckSession,
        store: VerdictStore,
        settings: Settings,
        rules: RuleSet,
        unchanged: Iterable[Definition],
    ) -> None:
        self._session = session
        self._store = store
        self._settings = settings
        self._time_columns = {name: stream.time for name, stream in settings.streams.items()}
        # Of rules whose shape is valid: found while the syntax trees of their queries are cached.
        self._warnings: dict[str, Sequence[RuleWarning]] = {}
        self._rules = rules
        for name, stream in settings.streams.items():
            session.create_stream_view(name, stream.columns)
        for name, relation in settings.relations.items():
            session.create_view(name, relation.columns)
        derived = DerivedStreams(session, store, settings, rules)
        self._derived = derived
        self._checked = {definition.name: definition for definition in unchanged}
        self._event_definitions: dict[str, Definition | None] = {}
        self._event_problems: dict[str, Problem] = {}  # of rules whose events others read
        self._streams = RuleStreams(
            session, rules, self._checked.values(), derived, settings, self._find_definition
        )

    def check(self) -> tuple[list[Definition], list[Problem]]:
        streams = self._streams
        problems = list(streams.find_problems())
        problems += self._derived.check(streams.plain_derived)
        if has_errors(problems):
            return [], problems
        checked: dict[str, Definition] = {}
        self._session.prepare(self._list_new_queries())
        for rule in order_by_reads(self._rules.rules):
            complete_rule, rule_problems = streams.complete(rule)
            definition = None
            if has_errors(rule_problems) and rule.id in self._event_problems:
                rule_problems = [self._event_problems[rule.id], *rule_problems]
            if not has_errors(rule_problems):
                definition, query_problems = self._check_rule(complete_rule)
                rule_problems = [*rule_problems, *query_problems]
            problems += rule_problems
            if definition is not None:
                checked[rule.id] = definition
                self._checked[rule.id] = definition
                streams.add(definition)
        problems += streams.check_remaining()
        if streams.has_failed:
            return [], problems
        return [checked[rule.id] for rule in self._rules.rules if rule.id in checked], problems

    def _find_definition(self, name: str) -> Definition | None:
        """A rule whose events another rule reads, perhaps before its questions are checked."""
        if name in self._checked:
            return self._checked[name]
        if name not in self._event_definitions:
            self._event_definitions[name] = None  # of a cycle, which is reported
            (rule,) = (rule for rule in self._rules.rules if rule.id == name)
            complete_rule, problems = self._streams.complete_events_of_expr(rule)
            if not problems:
                tables = self._event_tables(complete_rule)
                definition = self._analyse_event_query(complete_rule, tables)
                if isinstance(definition, Definition):
                    self._event_definitions[name] = definition
                else:
                    self._event_problems[name] = definition
        return self._event_definitions[name]

    def _list_new_queries(self) -> Iterator[str]:
        """The event queries that have no stored verdict, if their shape is valid.

        Not those that read streams of other rules, which have no views yet.
        """
        for rule in self._rules.rules:
            if rule.spec.expr is None or self._find_stored(rule) is not None:
                continue
            with suppress(Unsupported):
                _check_event_shape(rule, self._event_tables(rule))
                self._warnings[rule.id] = list(find_warnings(rule))
                yield rule.spec.expr

    def _event_tables(self, rule: Rule) -> Tables:
        return build_event_tables(rule, self._time_columns, frozenset(self._settings.relations))

    def _find_stored(self, rule: Rule) -> _Verdict | None:
        stored = self._store.find(_describe_rule(rule))
        if stored is None:
            return None
        definition = Definition.from_results(rule, stored["results"])
        return definition, [RuleWarning(*values) for values in stored["warnings"]]

    def _check_rule(self, rule: Rule) -> tuple[Definition | None, list[Problem]]:
        """Check one rule. An internal error is reported as a problem of this rule alone."""
        stored = self._find_stored(rule)
        if stored is not None:
            return stored[0], _to_problems(rule, stored[1])
        try:
            definition, problems = self._analyse_rule(rule)
        except SPARK_LOST:
            raise
        except Exception as error:
            _LOG.exception("rule check failed", action="rule_check_failed", rule=rule.id)
            cause = f"{type(error).__name__}: {error}"
            return None, [rule.make_problem(f"internal error while checking the rule: {cause}")]
        if rule.id not in self._warnings:
            self._warnings[rule.id] = list(find_warnings(rule))
        warnings = self._warnings[rule.id]
        if definition is not None:
            results = definition.results_to_json()
            verdict = {"results": results, "warnings": list(map(list, warnings))}
            self._store.put(_describe_rule(rule), verdict)
        return definition, [*problems, *_to_problems(rule, warnings)]

    def _analyse_rule(self, rule: Rule) -> tuple[Definition | None, list[Problem]]:
        """Return the definition, None if the rule has errors, and its errors."""
        event_tables = self._event_tables(rule)
        definition = self._analyse_event_query(rule, event_tables)
        if isinstance(definition, Problem):
            return None, [definition]
        problems = list(_find_unknown_attributes(definition))
        problems += _check_early(definition, event_tables)
        problems += self._check_silence(definition)
        tables = build_rule_tables(rule, self._time_columns, event_tables.relations)
        completed, question_problems = check_questions(
            self._session, self._settings, definition, tables
        )
        problems += question_problems
        return (None if problems else completed), problems

    def _check_silence(self, definition: Definition) -> Iterator[Problem]:
        columns = {name: stream.columns for name, stream in self._settings.streams.items()}
        problem = find_hold_problem(definition, columns)
        if problem is not None:
            yield problem

    def _analyse_event_query(self, rule: Rule, tables: Tables) -> Definition | Problem:
        expr = rule.spec.expr
        try:
            if rule.id not in self._warnings:
                _check_event_shape(rule, tables)
            if expr is not None:
                views = event_views(rule.event_streams) | revision_tables(rule)
                schema = self._session.validate(expr, views)
            else:
                sql = build_event_sql(rule, tables)
                schema = validate_query(self._session.spark, sql, internal=True)
            require_time_column(schema)
            problem = find_expected_problem(rule, schema, self._settings)
            if problem is not None:
                return problem
        except (Unsupported, QueryRejected) as error:
            if expr is None:  # generated SQL: its positions mean nothing to the author
                return rule.make_problem(str(error), "stream")
            return rule.make_problem(str(error), "expr", line=error.line, column=error.column)
        return _build_definition(rule, schema)


def _to_problems(rule: Rule, warnings: Iterable[RuleWarning]) -> list[Problem]:
    return [warning.to_problem(rule) for warning in warnings]


def _describe_rule(rule: Rule) -> Any:
    """What the verdict on a rule depends on, besides the declared columns, as JSON."""
    streams_read = [
        [stream.name, list(stream.columns.items()), stream.is_similar, *stream.rules]
        for stream in rule.revision_streams
    ]
    content = ["rule", rule.to_json(), streams_read]
    if rule.event_streams:
        content.append(
            [[stream.name, stream.expr, [*stream.columns.items()]] for stream in rule.event_streams]
        )
    return content


def _check_event_shape(rule: Rule, tables: Tables) -> None:
    """Raises `Unsupported`."""
    if rule.spec.expr is not None:
        check_table_count(rule.spec.expr, tables.derived)
    infer_event_shape(rule, tables)


def _build_definition(rule: Rule, schema: StructType) -> Definition | Problem:
    """Fill in the defaults of `key` and `id` from the columns of the event query."""
    spec = rule.spec
    query_key = "expr" if spec.expr is not None else "stream"
    attributes = {f.name: f.dataType for f in schema.fields if f.name.lower() != "ts"}
    lower_names = list(map(str.lower, attributes))
    for name in attributes:
        if name.startswith("_") or lower_names.count(name.lower()) > 1:
            message = f"column name {name!r} is reserved or not unique; rename the column with AS"
            return rule.make_problem(message, query_key)
    key = spec.key
    if key is None:
        key = tuple(name for name, kind in attributes.items() if isinstance(kind, StringType))
    identity = spec.id if spec.id is not None else key
    for rule_key, names in (("key", key), ("id", identity)):
        for name in names:
            if name not in attributes and name != "ts":
                message = f"{rule_key}: {_describe_unknown_column(name, attributes)}"
                return rule.make_problem(message, rule_key)
    types = {name: kind.simpleString() for name, kind in attributes.items()}
    return Definition(rule, types, key, tuple(name for name in identity if name != "ts"))


def _check_early(definition: Definition, tables: Tables) -> Iterator[Problem]:
    """Yield why events of open windows would not keep their identity, or have no window."""
    rule = definition.rule
    if not rule.spec.early:
        return
    if rule.spec.expr is None:
        yield rule.make_problem("early is for windowed rules; absence has no window", "early")
        return
    outputs = find_outputs(rule.spec.expr, tables)
    if not outputs.has_windows:
        message = "early is for windowed rules; other events are detected at once"
        yield rule.make_problem(message, "early")
    elif "ts" in outputs.aggregated:
        message = "early: ts must be window.start or window.end: events keep their identity"
        yield rule.make_problem(message, "early")
    for name in dict.fromkeys((*definition.id, *definition.key)):
        if name.lower() in outputs.aggregated:
            message = (
                f"early: {name} is computed from an aggregate, so it changes while rows arrive; "
                "name other columns in id and key"
            )
            yield rule.make_problem(message, "early")


def _find_unknown_attributes(definition: Definition) -> Iterator[Problem]:
    """Yield the attributes that templates require and the event query does not have."""
    rule = definition.rule
    for name, template in rule.spec.annotations.items():
        for attribute, line in find_attributes(template, "event").items():
            if attribute != "ts" and attribute not in definition.types:
                message = f"event.{attribute}: " + _describe_unknown_column(
                    attribute, definition.types
                )
                yield rule.make_problem(message, "annotations", name, line=line)


def _describe_unknown_column(name: str, columns: Iterable[str]) -> str:
    return f"column {name!r} is not in the query result; its columns are {', '.join(columns)}"
