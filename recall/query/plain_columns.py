"""Which columns of tables the outputs of a query are, without being computed. No I/O."""

from collections.abc import Mapping, Sequence
from itertools import product

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, build_scope

from recall.query.parsing import EventSql, parse

PlainColumn = tuple[str, str]
"""A table and its column."""
PlainColumns = Mapping[str, PlainColumn | None]
"""Outputs of a query by name; None: it is computed."""


def find_plain_columns(
    sql: str,
    names: Sequence[str],
    columns: Mapping[str, Mapping[str, str]],
    derived: Mapping[str, str],
) -> list[PlainColumns]:
    """What some outputs of a query are, for each branch of its unions.

    `columns`: of tables, with their types. `derived`: queries that stand for tables. Empty: the
    query cannot be followed.
    """
    try:
        query = qualify(
            _expand(parse(sql), derived),
            dialect=EventSql,
            schema={table: dict(types) for table, types in columns.items()},
            quote_identifiers=False,
            validate_qualify_columns=False,
        )
        scope = build_scope(query)
    except SqlglotError:
        return []
    return [] if scope is None else _find_in_scope(scope, [name.lower() for name in names])


def reads_one_table(sql: str, derived: Mapping[str, str]) -> bool:
    """Whether a query and those in its FROM filter and group the rows of one table, and no more.

    If an output is a plain column, each result row then follows from the rows with its value.
    `derived`: queries that stand for tables.
    """
    try:
        query = _expand(parse(sql), derived)
    except SqlglotError:
        return False
    refused_nodes = (
        exp.SetOperation,
        exp.Join,
        exp.Lateral,
        exp.Window,
        exp.With,
        exp.Limit,
        exp.Offset,
    )
    if query.find(*refused_nodes) is not None:
        return False
    nested = [select for select in query.find_all(exp.Select) if select is not query]
    return all(
        isinstance(select.parent, exp.Subquery) and isinstance(select.parent.parent, exp.From)
        for select in nested
    )


def _expand(query: exp.Query, derived: Mapping[str, str]) -> exp.Query:
    """The query with those of derived tables in their place."""
    for table in list(query.find_all(exp.Table)):
        name = table.name.lower()
        if name in derived:
            remaining = {other: text for other, text in derived.items() if other != name}
            subquery = _expand(parse(derived[name]), remaining)
            table.replace(exp.alias_(subquery.subquery(), table.alias_or_name, table=True))
    return query


def _find_in_scope(scope: Scope, names: Sequence[str]) -> list[PlainColumns]:
    query = scope.expression
    assert isinstance(query, exp.Query)
    if scope.set_operation_scopes:
        outputs = [name.lower() for name in query.named_selects]
        indexes = [outputs.index(name) for name in names if name in outputs]
        branches: list[PlainColumns] = []
        for branch in scope.set_operation_scopes:
            assert isinstance(branch.expression, exp.Query)
            branch_names = [branch.expression.named_selects[index].lower() for index in indexes]
            for columns in _find_in_scope(branch, branch_names):
                branches.append(dict(zip(names, map(columns.get, branch_names), strict=False)))
        return branches
    selected = {output.alias_or_name.lower(): output.unalias() for output in query.selects}
    inputs = {name: _input_column(selected.get(name)) for name in names}
    by_source: dict[str, list[str]] = {}
    for column in inputs.values():
        if column is not None:
            by_source.setdefault(column[0], []).append(column[1])
    alternatives = [
        [(source, columns) for columns in _find_in_source(scope.sources.get(source), source_names)]
        for source, source_names in by_source.items()
    ]
    branches = []
    for combination in product(*alternatives):
        by_name = dict(combination)
        branches.append(
            {
                name: None if column is None else by_name[column[0]].get(column[1])
                for name, column in inputs.items()
            }
        )
    return branches


def _input_column(value: exp.Expr | None) -> PlainColumn | None:
    while isinstance(value, exp.Paren):
        value = value.this
    if isinstance(value, exp.Column) and value.table:
        return value.table, value.name.lower()
    return None


def _find_in_source(source: object, names: Sequence[str]) -> list[PlainColumns]:
    if isinstance(source, Scope):
        return _find_in_scope(source, names)
    if isinstance(source, exp.Table):
        return [{name: (source.name.lower(), name) for name in names}]
    return [dict.fromkeys(names)]
