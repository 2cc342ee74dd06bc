"""Checking rules: files, shapes and, through the gate, Spark's opinion. What passes can be deployed."""

from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter

import structlog
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructType, TimestampType

from moirae.errors import Problem
from moirae.rules.check_questions import check_questions
from moirae.rules.definition import Definition, event_shape, event_sql, tables_of
from moirae.rules.ruleset import Derived, Rule, RuleSet
from moirae.rules.templates import attributes_in
from moirae.settings import Settings
from recall import gate
from recall.alike import Verdicts
from recall.query.scans import check_scans
from recall.query.shape import Tables, Unsupported, shape, tables_in

_LOG = structlog.get_logger()


def check(spark: SparkSession, settings: Settings, rules: RuleSet) -> tuple[list[Definition], list[Problem]]:
    """The definitions of all sound rules, and every problem of the others. Nothing is run."""
    session = gate.guarded(spark.newSession())
    for name, stream in settings.streams.items():
        _view(session, name, stream.columns)
    for name, relation in settings.relations.items():
        _view(session, name, relation.columns)
    problems = [p for derived in rules.derived for p in _check_shape(settings, derived, rules)]
    for derived in _in_order(rules.derived) if not problems else ():
        problems += _check_derived(session, derived)
    if any(p.severity == "error" for p in problems):
        return [], problems
    verdicts = Verdicts(session)
    definitions: list[Definition] = []
    for rule in rules.rules:
        try:
            definition, found = _check_whole(session, verdicts, settings, rule)
        except gate.SPARK_GONE:
            raise
        except Exception as fault:  # a fault of ours over one rule says nothing of the others
            _LOG.exception("rule not checked", action="rule_not_checked", rule=rule.id)
            words = f"{type(fault).__name__} {fault}".strip()
            definition, found = None, [rule.problem(f"cannot be checked, by a fault of Moirae itself: {words}")]
        problems += found
        if definition is not None:
            definitions.append(definition)
    return definitions, problems


def _check_whole(
    session: SparkSession, verdicts: Verdicts, settings: Settings, rule: Rule
) -> tuple[Definition | None, list[Problem]]:
    """A sound rule's definition, and what is wrong."""
    checked = _check_rule(session, verdicts, settings, rule)
    if not isinstance(checked, Definition):
        return None, [checked]
    unknown = list(_unknown_in_templates(checked))
    asked, found = check_questions(session, settings, checked, _tables(settings, rule))
    sound = not unknown and not any(problem.severity == "error" for problem in found)
    return asked if sound else None, [*unknown, *found]


def _view(session: SparkSession, name: str, columns: Mapping[str, str]) -> None:
    ddl = ", ".join(f"`{column}` {kind}" for column, kind in columns.items())
    session.createDataFrame([], ddl).createOrReplaceTempView(name)


def _in_order(derived: tuple[Derived, ...]) -> Iterator[Derived]:
    """Derived streams, each after those that it reads."""
    by_name = {d.stream: d for d in derived}
    reads = {d.stream: tables_in(d.expr) & by_name.keys() - {d.stream} for d in derived}
    return (by_name[name] for name in TopologicalSorter(reads).static_order())


def _tables(settings: Settings, rule: Rule) -> Tables:
    return tables_of(rule, {n: s.time for n, s in settings.streams.items()}, frozenset(settings.relations))


def _check_shape(settings: Settings, derived: Derived, rules: RuleSet) -> list[Problem]:
    group = {d.stream: d.expr for d in rules.derived if d.group == derived.group and d.stream != derived.stream}
    streams = {n: s.time for n, s in settings.streams.items()}
    try:
        check_scans(derived.expr, group)
        shape(derived.expr, Tables(streams, frozenset(settings.relations), group))
    except Unsupported as error:
        return [derived.problem(str(error), "expr", line=error.line, column=error.column)]
    return []


def _check_derived(session: SparkSession, derived: Derived) -> list[Problem]:
    try:
        columns = gate.judge(session, derived.expr)
        _need_time(columns)
    except gate.Refusal as error:
        return [derived.problem(str(error), "expr", line=error.line, column=error.column)]
    _view(session, derived.stream, {f.name: f.dataType.simpleString() for f in columns.fields})
    return []


def _check_rule(session: SparkSession, verdicts: Verdicts, settings: Settings, rule: Rule) -> Definition | Problem:
    tables = _tables(settings, rule)
    place = "expr" if rule.spec.expr is not None else "stream"
    try:
        if rule.spec.expr is not None:
            check_scans(rule.spec.expr, tables.derived)
        event_shape(rule, tables)
        if rule.spec.expr is not None:
            columns = verdicts.judge(rule.spec.expr)
        else:
            columns = gate.judge(session, event_sql(rule, tables), own=True)
        _need_time(columns)
    except (Unsupported, gate.Refusal) as error:
        line, column = (error.line, error.column) if rule.spec.expr is not None else (1, 1)
        return rule.problem(str(error), place, line=line, column=column)
    return _define(rule, columns, place)


def _define(rule: Rule, columns: StructType, place: str) -> Definition | Problem:
    attributes = {f.name: f.dataType for f in columns.fields if f.name.lower() != "ts"}
    lower = [name.lower() for name in attributes]
    for name in attributes:
        if name.startswith("_") or lower.count(name.lower()) > 1:
            return rule.problem(f"column {name!r} of the result is reserved or stands twice; name it with AS", place)
    key = rule.spec.key
    if key is None:
        key = tuple(name for name, kind in attributes.items() if isinstance(kind, StringType))
    identity = rule.spec.id if rule.spec.id is not None else key
    for what, names in (("key", key), ("id", identity)):
        for name in names:
            if name not in attributes and name != "ts":
                known = ", ".join(attributes)
                return rule.problem(f"{what} names {name!r}, which the query does not yield (it yields {known})", what)
    types = {name: kind.simpleString() for name, kind in attributes.items()}
    return Definition(rule, types, key, tuple(name for name in identity if name != "ts"))


def _unknown_in_templates(definition: Definition) -> Iterator[Problem]:
    for name, text in definition.rule.spec.annotations.items():
        for attribute, line in attributes_in(text).items():
            if attribute != "ts" and attribute not in definition.types:
                known = ", ".join(definition.types)
                message = f"the template names event.{attribute}, which the query does not yield (it yields {known})"
                yield definition.rule.problem(message, "annotations", name, line=line)


def _need_time(columns: StructType) -> None:
    kinds = {f.name.lower(): f.dataType for f in columns.fields}
    if "ts" not in kinds:
        raise gate.Refusal("every row of an event query has a time: select it AS ts")
    if not isinstance(kinds["ts"], TimestampType):
        raise gate.Refusal(f"ts must be a timestamp, not {kinds['ts'].simpleString()}")
