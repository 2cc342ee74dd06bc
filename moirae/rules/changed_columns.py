"""What changed column types mean for rules: keys that would change, and terms of contexts. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from sqlglot import exp

from moirae.errors import Problem
from moirae.rules.definition import Definition
from moirae.rules.rule_set import Rule
from recall.query import Unsupported, find_tables_reached, parse, tables_in

# By stream and column, its type before and now.
ChangedTypes = Mapping[str, Mapping[str, tuple[str, str]]]

_OF_THE_TYPE_OF_ITS_PARTS = (
    exp.Paren,
    exp.Neg,
    exp.Abs,
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Max,
    exp.Min,
    exp.Sum,
    exp.Coalesce,
    exp.Greatest,
    exp.Least,
)


def find_changed_keys(rule: Rule, changed: ChangedTypes) -> Iterator[Problem]:
    """Why events and alerts would be others: columns of `key` and `id` with another text.

    `changed`: columns that take another type now, in which values have another text.
    """
    spec = rule.spec
    for rule_key, names in (("key", spec.key), ("id", spec.id)):
        for name in names or ():
            for stream, column in dict.fromkeys(_sources(rule, name)):
                if column in changed.get(stream, {}):
                    old_type, new_type = changed[stream][column]
                    yield rule.make_problem(
                        f"{rule_key}: the text of {name} would change with the type of column "
                        f"{column} of stream {stream}, {old_type} before and {new_type} now: "
                        f"select CAST({column} AS {old_type}) AS {name}",
                        rule_key,
                    )


def _sources(rule: Rule, name: str) -> Iterator[tuple[str, str]]:
    """The columns of streams whose type is that of a column of the event query, also through
    derived streams.
    """
    derived = rule.derived_queries
    if rule.spec.expr is not None:
        yield from _sources_in(rule.spec.expr, name, derived)
    elif rule.spec.stream is not None:
        yield from _sources_of(rule.spec.stream, name, derived)


def _sources_in(sql: str, name: str, derived: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    try:
        query = parse(sql)
    except Unsupported:
        return  # reported by the check of the rule
    for selection in query.selects:
        value = selection.unalias()
        if isinstance(value, exp.Star) or value.is_star:
            columns = [name]
        elif selection.alias_or_name == name:
            columns = list(_columns_of_type(value))
        else:
            continue
        for stream in tables_in(sql):
            for column in columns:
                yield from _sources_of(stream, column, derived)


def _sources_of(stream: str, column: str, derived: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    yield stream, column
    if stream in derived:
        unread = {name: sql for name, sql in derived.items() if name != stream}
        yield from _sources_in(derived[stream], column, unread)


def _columns_of_type(value: exp.Expr) -> Iterator[str]:
    """The columns whose type decides that of a value."""
    if isinstance(value, exp.Column):
        yield value.name
    elif isinstance(value, _OF_THE_TYPE_OF_ITS_PARTS):
        for part in value.iter_expressions():
            yield from _columns_of_type(part)


def with_term_types(definition: Definition, altered: Mapping[str, Mapping[str, str]]) -> Definition:
    """The definition with the types of its contexts' terms where their text was another before.

    `altered`: by stream and column, the present type of columns that had another text before.
    """
    types: dict[str, str] = {}
    derived = definition.rule.derived_queries
    for name, context in definition.spec.context.items():
        result_types = set(definition.result_columns.get(name, {}).values())
        reached = find_tables_reached(tables_in(context.sql), derived)
        for sql in (context.sql, *(derived[stream] for stream in reached.intersection(derived))):
            names = _column_names(sql)
            for stream in tables_in(sql) & altered.keys():
                for column, type_name in altered[stream].items():
                    is_read = names is None or column.lower() in names
                    if is_read and type_name in result_types:
                        types[f"{stream}.{column}"] = type_name
    return replace(definition, rule=replace(definition.rule, term_types=types))


def _column_names(sql: str) -> set[str] | None:
    """The columns that a query names, in lower case; None: perhaps all."""
    query = parse(sql)
    if any(not isinstance(star.parent, exp.Count) for star in query.find_all(exp.Star)):
        return None
    return {column.name.lower() for column in query.find_all(exp.Column)}
