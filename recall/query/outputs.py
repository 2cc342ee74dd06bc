"""The outputs of an event query: which of them are computed from aggregates. No I/O."""

from collections.abc import Mapping
from typing import NamedTuple

from sqlglot import exp

from recall.query.parsing import parse
from recall.query.parts import common_tables, is_aggregate, normalize_aggregates, sources_of
from recall.query.shape import Tables
from recall.query.windows import grouping_windows


class Outputs(NamedTuple):
    """The outputs of a query, by name in lower case.

    `aggregated`: those that are computed from aggregates, so that they change while rows arrive.
    `has_windows`: whether the query, or a query inside it, groups by windows.
    """

    names: frozenset[str] = frozenset()
    aggregated: frozenset[str] = frozenset()
    has_windows: bool = False


def find_outputs(sql: str, tables: Tables) -> Outputs:
    """The outputs of a query that has passed `infer_shape`."""
    return _find_outputs(normalize_aggregates(parse(sql)), tables, {})


def _find_outputs(query: exp.Expr, tables: Tables, local_tables: Mapping[str, Outputs]) -> Outputs:
    if isinstance(query, exp.Subquery):
        return _find_outputs(query.this, tables, local_tables)
    visible_tables = dict(local_tables)
    for cte in common_tables(query):
        visible_tables[cte.alias.lower()] = _find_outputs(cte.this, tables, visible_tables)
    if isinstance(query, exp.SetOperation):
        first = _find_outputs(query.this, tables, visible_tables)
        second = _find_outputs(query.expression, tables, visible_tables)
        return Outputs(
            first.names,
            first.aggregated | second.aggregated,
            first.has_windows or second.has_windows,
        )
    assert isinstance(query, exp.Select)
    return _find_select_outputs(query, tables, visible_tables)


def _find_select_outputs(
    select: exp.Select, tables: Tables, local_tables: Mapping[str, Outputs]
) -> Outputs:
    sources: dict[str, Outputs] = {}
    for source in sources_of(select):
        alias = source.alias_or_name.lower()
        sources[alias] = _find_source_outputs(source, tables, local_tables)
    names: set[str] = set()
    aggregated: set[str] = set()
    for output in select.expressions:
        if output.is_star:
            for source_outputs in sources.values():
                names |= source_outputs.names
                aggregated |= source_outputs.aggregated
            continue
        name = output.alias_or_name.lower()
        names.add(name)
        if _is_aggregated(output, sources):
            aggregated.add(name)
    has_windows = bool(grouping_windows(select))
    for source_outputs in sources.values():
        has_windows = has_windows or source_outputs.has_windows
    return Outputs(frozenset(names), frozenset(aggregated), has_windows)


def _is_aggregated(output: exp.Expr, sources: Mapping[str, Outputs]) -> bool:
    if any(map(is_aggregate, output.walk())):
        return True
    for column in output.find_all(exp.Column):
        table = column.table.lower()
        candidates = [sources[table]] if table in sources else list(sources.values())
        if any(column.name.lower() in candidate.aggregated for candidate in candidates):
            return True
    return False


def _find_source_outputs(
    source: exp.Expr, tables: Tables, local_tables: Mapping[str, Outputs]
) -> Outputs:
    if isinstance(source, exp.Subquery):
        return _find_outputs(source.this, tables, local_tables)
    name = source.name.lower()
    if name in local_tables:
        return local_tables[name]
    if name in tables.derived:
        return find_outputs(tables.derived[name], tables.without_derived(name))
    return Outputs()
