"""Check rules: the shape of every query, then Spark's analysis of it in the SQL sandbox.

No query is executed. Rules without errors can be deployed.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from graphlib import TopologicalSorter

import structlog
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructType, TimestampType

from moirae.config import Settings
from moirae.errors import Problem
from moirae.rules.checks.check_questions import check_questions
from moirae.rules.definition import (
    Definition,
    build_event_sql,
    build_event_tables,
    build_rule_tables,
    infer_event_shape,
)
from moirae.rules.revision_streams import (
    find_cycles,
    find_derived_readers,
    find_other_readers,
    find_streams_read,
    list_outputs,
    make_streams,
    order_by_reads,
)
from moirae.rules.rule_set import DerivedQuery, RevisionStream, Rule, RuleSet
from moirae.rules.templates import find_event_attributes
from recall.errors import QueryRejected
from recall.query import (
    Tables,
    Unsupported,
    check_table_count,
    find_outputs,
    infer_shape,
    tables_in,
)
from recall.sandbox import SPARK_LOST, QueryValidator, harden_session, validate_query

_LOG = structlog.get_logger()


def check_rules(
    spark: SparkSession,
    settings: Settings,
    rules: RuleSet,
    unchanged: Iterable[Definition] = (),
) -> tuple[list[Definition], list[Problem]]:
    """Return the definitions of all valid rules, and the problems of all rules.

    `unchanged`: checked rules whose streams these may read. An error in any derived stream rejects all
    rules. Raises one of `SPARK_LOST` if the connection to Spark's JVM is lost.
    """
    session = harden_session(spark.newSession())
    for name, stream in settings.streams.items():
        _create_empty_view(session, name, stream.columns)
    for name, relation in settings.relations.items():
        _create_empty_view(session, name, relation.columns)
    histories = _Histories(session, settings, rules, unchanged)
    problems = list(histories.find_problems())
    problems += _check_derived_streams(session, settings, rules, histories.plain_derived)
    if _has_error(problems):
        return [], problems
    validator = QueryValidator(session)
    validator.prepare(_find_valid_queries(settings, rules))
    checked: dict[str, Definition] = {}
    for rule in order_by_reads(rules.rules):
        complete_rule, rule_problems = histories.complete(rule)
        definition = None
        if not _has_error(rule_problems):
            definition, question_problems = _check_rule_isolated(
                session, validator, settings, complete_rule
            )
            rule_problems = [*rule_problems, *question_problems]
        problems += rule_problems
        if definition is not None:
            checked[rule.id] = definition
            histories.add(definition)
    problems += histories.check_remaining()
    if histories.has_failed:
        return [], problems
    return [checked[rule.id] for rule in rules.rules if rule.id in checked], problems


class _Histories:
    """Streams of recalls and stages that event queries and derived streams of rules read.

    Their columns are known when the rule that has them is checked, so rules are checked in the
    order of `order_by_reads`, and derived streams over such streams before the first reader.
    """

    def __init__(
        self,
        session: SparkSession,
        settings: Settings,
        rules: RuleSet,
        unchanged: Iterable[Definition],
    ) -> None:
        self._session = session
        self._settings = settings
        self._rules = rules
        self._definitions = {definition.name: definition for definition in unchanged}
        checked_rules = [definition.rule for definition in self._definitions.values()]
        self._outputs = list_outputs([*checked_rules, *rules.rules])
        # Stored rules bring those that they read with them.
        self._stored = {
            stream.name: stream for rule in rules.rules for stream in rule.revision_streams
        }
        names = self._outputs.keys() | self._stored.keys()
        readers = find_derived_readers(rules.derived, names)
        self.plain_derived = tuple(query for query in rules.derived if query not in readers)
        self._unchecked = {query.stream: query for query in rules.derived if query in readers}
        self._streams: dict[str, RevisionStream] = {}
        self.has_failed = False

    def find_problems(self) -> Iterator[Problem]:
        """Yield cycles, and derived streams that cannot be archived."""
        yield from find_cycles(self._rules.rules)
        for query in self._unchecked.values():
            if query.archive:
                message = "archive: it reads revisions, which are archived with their recalls"
                yield query.make_problem(message, "archive")

    def add(self, definition: Definition) -> None:
        """Note a checked rule, whose streams others may read."""
        self._definitions[definition.name] = definition

    def complete(self, rule: Rule) -> tuple[Rule, list[Problem]]:
        """The rule with the streams that it reads, each of which has a view then."""
        all_names = self._outputs.keys() | self._stored.keys()
        if not all_names:
            return rule, []
        problems = list(find_other_readers(rule, all_names))
        names = sorted(find_streams_read(rule, all_names))
        if problems or not names:
            return rule, problems
        key = "expr" if rule.spec.expr is not None else "stream"
        if rule.spec.expr is None:
            message = "absence is of rows of declared streams; this reads revisions of a recall"
            return rule, [rule.make_problem(message, key)]
        streams = []
        for name in names:
            stream = self._find_stream(name)
            if stream is None:
                message = f"stream {name}: rule {self._outputs[name].rule} has errors"
                return rule, [rule.make_problem(message, key)]
            streams.append(stream)
        return replace(rule, revision_streams=tuple(streams)), self._check_derived(rule)

    def check_remaining(self) -> list[Problem]:
        """Check the derived streams that no rule reads."""
        problems: list[Problem] = []
        for query in list(self._unchecked.values()):
            for name in sorted(tables_in(query.expr) & self._outputs.keys()):
                if self._find_stream(name) is None and not self.has_failed:
                    message = f"stream {name}: rule {self._outputs[name].rule} has errors"
                    return [query.make_problem(message, "expr")]
        for group in dict.fromkeys(query.group for query in self._unchecked.values()):
            problems += self._check_derived_of(group, frozenset(self._unchecked))
        return problems

    def _find_stream(self, name: str) -> RevisionStream | None:
        """A stream, for which a view is created; None: its rule has errors."""
        if name in self._streams:
            return self._streams[name]
        output = self._outputs.get(name)
        if output is None:
            stream = self._stored[name]
        elif output.rule not in self._definitions:
            return None
        else:
            columns = self._definitions[output.rule].output_columns(output.name)
            (stream,) = make_streams([name], output, columns)
        _create_empty_view(self._session, name, stream.columns)
        self._streams[name] = stream
        return stream

    def _check_derived(self, rule: Rule) -> list[Problem]:
        """Check the derived streams through which a rule reads revisions."""
        assert rule.spec.expr is not None
        expressions = {query.stream: query.expr for query in rule.derived}
        reached: set[str] = set()
        pending = list(tables_in(rule.spec.expr) & expressions.keys())
        while pending:
            name = pending.pop()
            if name not in reached:
                reached.add(name)
                pending += tables_in(expressions[name]) & expressions.keys()
        return self._check_derived_of(rule.group, frozenset(reached))

    def _check_derived_of(self, group: str, names: frozenset[str]) -> list[Problem]:
        """Check those derived streams of a group, once each."""
        selected = [
            query
            for query in self._unchecked.values()
            if query.group == group and query.stream in names
        ]
        problems: list[Problem] = []
        for query in selected:
            del self._unchecked[query.stream]
            problems += _check_derived_shape(self._settings, query, self._rules, self._streams)
        if not problems:
            for query in _sort_by_dependency(tuple(selected)):
                problems += _check_derived_query(self._session, query)
        self.has_failed = self.has_failed or _has_error(problems)
        return problems


def _has_error(problems: Iterable[Problem]) -> bool:
    return any(problem.severity == "error" for problem in problems)


def _create_empty_view(session: SparkSession, name: str, columns: Mapping[str, str]) -> None:
    ddl = ", ".join(f"`{column}` {kind}" for column, kind in columns.items())
    session.createDataFrame([], ddl).createOrReplaceTempView(name)


def _check_derived_streams(
    session: SparkSession,
    settings: Settings,
    rules: RuleSet,
    derived_streams: tuple[DerivedQuery, ...],
) -> list[Problem]:
    """Check some derived streams and create an empty view of each."""
    problems: list[Problem] = []
    for derived in derived_streams:
        problems += _check_derived_shape(settings, derived, rules, ())
    if problems:
        return problems
    for derived in _sort_by_dependency(derived_streams):
        problems += _check_derived_query(session, derived)
    return problems


def _sort_by_dependency(derived_streams: tuple[DerivedQuery, ...]) -> Iterator[DerivedQuery]:
    """Yield each derived stream after those that it reads."""
    by_name = {derived.stream: derived for derived in derived_streams}
    dependencies: dict[str, Collection[str]] = {}
    for name, derived in by_name.items():
        dependencies[name] = tables_in(derived.expr) & by_name.keys() - {name}
    return map(by_name.__getitem__, TopologicalSorter(dependencies).static_order())


def _find_valid_queries(settings: Settings, rules: RuleSet) -> Iterator[str]:
    """The event queries that may be analysed, of rules that read no streams of others."""
    streams, relations = _time_columns(settings), frozenset(settings.relations)
    for rule in rules.rules:
        if rule.spec.expr is not None:
            with suppress(Unsupported):
                tables = build_event_tables(rule, streams, relations)
                check_table_count(rule.spec.expr, tables.derived)
                infer_event_shape(rule, tables)
                yield rule.spec.expr


def _time_columns(settings: Settings) -> dict[str, str]:
    return {name: stream.time for name, stream in settings.streams.items()}


def _check_derived_shape(
    settings: Settings, derived: DerivedQuery, rules: RuleSet, revision_streams: Iterable[str]
) -> list[Problem]:
    siblings: dict[str, str] = {}
    for query in rules.derived:
        if query.group == derived.group and query.stream != derived.stream:
            siblings[query.stream] = query.expr
    streams = {**_time_columns(settings), **dict.fromkeys(revision_streams, "ts")}
    tables = Tables(streams, frozenset(settings.relations), siblings)
    try:
        check_table_count(derived.expr, siblings)
        infer_shape(derived.expr, tables)
    except Unsupported as error:
        return [derived.make_problem(str(error), "expr", line=error.line, column=error.column)]
    return []


def _check_derived_query(session: SparkSession, derived: DerivedQuery) -> list[Problem]:
    try:
        schema = validate_query(session, derived.expr)
        _require_time_column(schema)
    except QueryRejected as error:
        return [derived.make_problem(str(error), "expr", line=error.line, column=error.column)]
    columns = {field.name: field.dataType.simpleString() for field in schema.fields}
    _create_empty_view(session, derived.stream, columns)
    return []


def _check_rule_isolated(
    session: SparkSession, validator: QueryValidator, settings: Settings, rule: Rule
) -> tuple[Definition | None, list[Problem]]:
    """Check one rule. An internal error is reported as a problem of this rule alone."""
    try:
        return _check_rule(session, validator, settings, rule)
    except SPARK_LOST:
        raise
    except Exception as error:
        _LOG.exception("rule check failed", action="rule_check_failed", rule=rule.id)
        cause = f"{type(error).__name__}: {error}"
        return None, [rule.make_problem(f"internal error while checking the rule: {cause}")]


def _check_rule(
    session: SparkSession, validator: QueryValidator, settings: Settings, rule: Rule
) -> tuple[Definition | None, list[Problem]]:
    """Return the definition, None if the rule has errors, and its errors and warnings."""
    streams, relations = _time_columns(settings), frozenset(settings.relations)
    tables = build_rule_tables(rule, streams, relations)
    event_tables = build_event_tables(rule, streams, relations)
    definition = _check_event_query(session, validator, rule, event_tables)
    if isinstance(definition, Problem):
        return None, [definition]
    problems = list(_find_unknown_attributes(definition))
    problems += _check_early(definition, event_tables)
    completed, question_problems = check_questions(session, settings, definition, tables)
    problems += question_problems
    if _has_error(problems):
        return None, problems
    return completed, problems


def _check_event_query(
    session: SparkSession, validator: QueryValidator, rule: Rule, tables: Tables
) -> Definition | Problem:
    expr = rule.spec.expr
    try:
        if expr is not None:
            check_table_count(expr, tables.derived)
        infer_event_shape(rule, tables)
        if expr is not None:
            schema = validator.validate(expr)
        else:
            schema = validate_query(session, build_event_sql(rule, tables), internal=True)
        _require_time_column(schema)
    except (Unsupported, QueryRejected) as error:
        if expr is None:  # generated SQL: its positions mean nothing to the author
            return rule.make_problem(str(error), "stream")
        return rule.make_problem(str(error), "expr", line=error.line, column=error.column)
    return _build_definition(rule, schema)


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
        for attribute, line in find_event_attributes(template).items():
            if attribute != "ts" and attribute not in definition.types:
                message = f"event.{attribute}: " + _describe_unknown_column(
                    attribute, definition.types
                )
                yield rule.make_problem(message, "annotations", name, line=line)


def _describe_unknown_column(name: str, columns: Iterable[str]) -> str:
    return f"column {name!r} is not in the query result; its columns are {', '.join(columns)}"


def _require_time_column(schema: StructType) -> None:
    types_by_name = {field.name.lower(): field.dataType for field in schema.fields}
    if "ts" not in types_by_name:
        raise QueryRejected("the query result has no column ts; select the event time AS ts")
    if not isinstance(types_by_name["ts"], TimestampType):
        actual = types_by_name["ts"].simpleString()
        raise QueryRejected(f"column ts must be a timestamp, not {actual}")
