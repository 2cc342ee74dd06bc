"""Checking rules: files, shapes and, through the gate, Spark's opinion. What passes can be deployed."""

from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter

import structlog
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructType, TimestampType

from moirae.config import Settings
from moirae.errors import Problem
from moirae.rules.check_questions import check_questions
from moirae.rules.definition import Definition, event_shape, event_sql, rule_tables
from moirae.rules.rule_set import DerivedQuery, Rule, RuleSet
from moirae.rules.templates import find_event_attributes
from recall.errors import QueryRejected
from recall.query import Tables, Unsupported, check_table_count, infer_shape, tables_in
from recall.sandbox import SPARK_LOST, VerdictCache, harden_session, validate_query

_LOG = structlog.get_logger()


def check_rules(
    spark: SparkSession, settings: Settings, rules: RuleSet
) -> tuple[list[Definition], list[Problem]]:
    """The definitions of all sound rules, and every problem of the others. Nothing is run."""
    session = harden_session(spark.newSession())
    for name, stream in settings.streams.items():
        _create_view(session, name, stream.columns)
    for name, relation in settings.relations.items():
        _create_view(session, name, relation.columns)
    problems = [p for derived in rules.derived for p in _check_shape(settings, derived, rules)]
    for derived in _in_dependency_order(rules.derived) if not problems else ():
        problems += _check_derived(session, derived)
    if any(p.severity == "error" for p in problems):
        return [], problems
    verdicts = VerdictCache(session)
    definitions: list[Definition] = []
    for rule in rules.rules:
        try:
            definition, found = _check_rule_and_questions(session, verdicts, settings, rule)
        except SPARK_LOST:
            raise
        except Exception as fault:  # a fault of ours over one rule says nothing of the others
            _LOG.exception("rule not checked", action="rule_not_checked", rule=rule.id)
            words = f"{type(fault).__name__} {fault}".strip()
            definition, found = (
                None,
                [rule.problem(f"cannot be checked, by a fault of Moirae itself: {words}")],
            )
        problems += found
        if definition is not None:
            definitions.append(definition)
    return definitions, problems


def _check_rule_and_questions(
    session: SparkSession, verdicts: VerdictCache, settings: Settings, rule: Rule
) -> tuple[Definition | None, list[Problem]]:
    """A sound rule's definition, and what is wrong."""
    checked = _check_event_query(session, verdicts, settings, rule)
    if not isinstance(checked, Definition):
        return None, [checked]
    unknown = list(_find_unknown_attributes(checked))
    asked, found = check_questions(session, settings, checked, _tables_for(settings, rule))
    sound = not unknown and not any(problem.severity == "error" for problem in found)
    return asked if sound else None, [*unknown, *found]


def _create_view(session: SparkSession, name: str, columns: Mapping[str, str]) -> None:
    ddl = ", ".join(f"`{column}` {kind}" for column, kind in columns.items())
    session.createDataFrame([], ddl).createOrReplaceTempView(name)


def _in_dependency_order(derived: tuple[DerivedQuery, ...]) -> Iterator[DerivedQuery]:
    """Derived streams, each after those that it reads."""
    by_name = {d.stream: d for d in derived}
    reads = {d.stream: tables_in(d.expr) & by_name.keys() - {d.stream} for d in derived}
    return (by_name[name] for name in TopologicalSorter(reads).static_order())


def _tables_for(settings: Settings, rule: Rule) -> Tables:
    return rule_tables(
        rule, {n: s.time for n, s in settings.streams.items()}, frozenset(settings.relations)
    )


def _check_shape(settings: Settings, derived: DerivedQuery, rules: RuleSet) -> list[Problem]:
    group = {
        d.stream: d.expr
        for d in rules.derived
        if d.group == derived.group and d.stream != derived.stream
    }
    streams = {n: s.time for n, s in settings.streams.items()}
    try:
        check_table_count(derived.expr, group)
        infer_shape(derived.expr, Tables(streams, frozenset(settings.relations), group))
    except Unsupported as error:
        return [derived.problem(str(error), "expr", line=error.line, column=error.column)]
    return []


def _check_derived(session: SparkSession, derived: DerivedQuery) -> list[Problem]:
    try:
        columns = validate_query(session, derived.expr)
        _require_time_column(columns)
    except QueryRejected as error:
        return [derived.problem(str(error), "expr", line=error.line, column=error.column)]
    _create_view(
        session, derived.stream, {f.name: f.dataType.simpleString() for f in columns.fields}
    )
    return []


def _check_event_query(
    session: SparkSession, verdicts: VerdictCache, settings: Settings, rule: Rule
) -> Definition | Problem:
    tables = _tables_for(settings, rule)
    place = "expr" if rule.spec.expr is not None else "stream"
    try:
        if rule.spec.expr is not None:
            check_table_count(rule.spec.expr, tables.derived)
        event_shape(rule, tables)
        if rule.spec.expr is not None:
            columns = verdicts.validate(rule.spec.expr)
        else:
            columns = validate_query(session, event_sql(rule, tables), internal=True)
        _require_time_column(columns)
    except (Unsupported, QueryRejected) as error:
        line, column = (error.line, error.column) if rule.spec.expr is not None else (1, 1)
        return rule.problem(str(error), place, line=line, column=column)
    return _build_definition(rule, columns, place)


def _build_definition(rule: Rule, columns: StructType, place: str) -> Definition | Problem:
    attributes = {f.name: f.dataType for f in columns.fields if f.name.lower() != "ts"}
    lower = [name.lower() for name in attributes]
    for name in attributes:
        if name.startswith("_") or lower.count(name.lower()) > 1:
            return rule.problem(
                f"column {name!r} of the result is reserved or stands twice; name it with AS", place
            )
    key = rule.spec.key
    if key is None:
        key = tuple(name for name, kind in attributes.items() if isinstance(kind, StringType))
    identity = rule.spec.id if rule.spec.id is not None else key
    for what, names in (("key", key), ("id", identity)):
        for name in names:
            if name not in attributes and name != "ts":
                known = ", ".join(attributes)
                return rule.problem(
                    f"{what} names {name!r}, which the query does not yield (it yields {known})",
                    what,
                )
    types = {name: kind.simpleString() for name, kind in attributes.items()}
    return Definition(rule, types, key, tuple(name for name in identity if name != "ts"))


def _find_unknown_attributes(definition: Definition) -> Iterator[Problem]:
    for name, text in definition.rule.spec.annotations.items():
        for attribute, line in find_event_attributes(text).items():
            if attribute != "ts" and attribute not in definition.types:
                known = ", ".join(definition.types)
                message = f"the template names event.{attribute}, which the query does not yield (it yields {known})"
                yield definition.rule.problem(message, "annotations", name, line=line)


def _require_time_column(columns: StructType) -> None:
    kinds = {f.name.lower(): f.dataType for f in columns.fields}
    if "ts" not in kinds:
        raise QueryRejected("every row of an event query has a time: select it AS ts")
    if not isinstance(kinds["ts"], TimestampType):
        raise QueryRejected(f"ts must be a timestamp, not {kinds['ts'].simpleString()}")
