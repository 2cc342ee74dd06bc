"""Event queries over physical tables.

Derived streams are expanded; relations are joined as they were at the time of the row. No value
enters a query as text: only names of tables change, on the syntax tree. No I/O.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from sqlglot import exp

from recall.query.extra import exclude_extra
from recall.query.joins import find_anchor
from recall.query.landmark_windows import spark_windows
from recall.query.parsing import Unsupported, parse
from recall.query.parts import common_tables, joins_of
from recall.query.shape import Tables
from recall.query.sql_names import VALID_FROM, VALID_TO
from recall.query.windows import (
    CALL,
    Window,
    grouping_windows,
    parse_window,
    window_arguments,
)

_MAX_TABLES = 1_024  # names of physical tables that are parsed once


@dataclass(frozen=True)
class PhysicalTables:
    """The names under which streams and relations can be read, by their names in queries."""

    names: Mapping[str, str]

    def __getitem__(self, name: str) -> exp.Table:
        return _parse_table(self.names[name]).copy()


@lru_cache(_MAX_TABLES)
def _parse_table(name: str) -> exp.Table:
    return exp.to_table(name, dialect="spark")


def bind_query(sql: str, tables: Tables, physical: PhysicalTables) -> exp.Query:
    """The query over physical tables. The query must have passed `infer_shape`."""
    return _bind_query(parse(sql), tables, physical, frozenset())


def _bind_query(
    query: exp.Query, tables: Tables, physical: PhysicalTables, local_tables: frozenset[str]
) -> exp.Query:
    """`local_tables`: the names of visible CTEs."""
    for cte in common_tables(query):
        cte.set("this", _bind_query(cte.this, tables, physical, local_tables))
        local_tables |= {cte.alias.lower()}
    if isinstance(query, exp.SetOperation):
        for side in ("this", "expression"):
            query.set(side, _bind_query(query.args[side], tables, physical, local_tables))
    elif isinstance(query, exp.Subquery):
        query.set("this", _bind_query(query.this, tables, physical, local_tables))
    elif isinstance(query, exp.Select):
        _bind_select(query, tables, physical, local_tables)
    return query


def _bind_select(
    select: exp.Select, tables: Tables, physical: PhysicalTables, local_tables: frozenset[str]
) -> None:
    clauses: list[exp.Expr] = [select.args["from_"], *joins_of(select)]
    times: dict[str, str] = {}
    stream_aliases: list[str] = []
    for clause in clauses:
        if _is_table_in(clause.this, tables.streams, local_tables):
            stream_aliases.append(clause.this.alias_or_name)
        time_column = _time_column(clause.this, tables, local_tables)
        if time_column is not None:
            times[clause.this.alias_or_name.lower()] = time_column
    anchor = find_anchor(select, times, grouping_windows(select))
    assert anchor is not None  # the query has a shape
    exclude_extra(select, stream_aliases)
    row_time = exp.column(times[anchor], table=anchor, quoted=True)
    for clause in clauses:
        is_relation = _is_table_in(clause.this, tables.relations, local_tables)
        alias = clause.this.alias_or_name
        clause.set("this", _bind_table(clause.this, tables, physical, local_tables))
        if is_relation:
            _add_validity_condition(select, clause, alias, row_time)
    _put_views(select)


def write_landmark_views(sql: str) -> str:
    """An event query as Spark can read it: with views in place of windows since a time of the day.

    Raises `Unsupported`.
    """
    if "since" not in sql.lower():
        return sql
    query = parse(sql)
    selects = list(query.find_all(exp.Select))
    if not any(list(map(_put_views, selects))):
        return sql
    text: str = query.sql(dialect="spark")
    return text


def _put_views(select: exp.Select) -> bool:
    """Put views in place of windows since a time of the day; whether there are any."""
    has_views = False
    for call in grouping_windows(select):
        window = parse_window(call, window_arguments(call)[1:])
        if window.landmark is not None:
            _put_view(select, call, window)
            has_views = True
    return has_views


def _put_view(select: exp.Select, call: exp.Expr, window: Window) -> None:
    """Assign rows to windows since a time of the day, which Spark does not know, by a LATERAL VIEW.

    Groups and outputs read its column `window`, as they would read Spark's function.
    """
    time = window_arguments(call)[0].sql(dialect="spark")
    text = f"SELECT 1 FROM t LATERAL VIEW explode({spark_windows(time, window)}) AS window"
    view = parse(text).args["laterals"][0]
    view.meta[CALL] = call.copy()
    select.append("laterals", view)
    call.replace(exp.column("window"))


def _time_column(node: exp.Expr, tables: Tables, local_tables: frozenset[str]) -> str | None:
    """The name of the time column of a table in FROM; None for a relation."""
    if _is_table_in(node, tables.relations, local_tables):
        return None
    if _is_table_in(node, tables.streams, local_tables):
        return tables.streams[node.name.lower()]
    return "ts"


def _is_table_in(
    node: exp.Expr, names: Mapping[str, str] | frozenset[str], local_tables: frozenset[str]
) -> bool:
    """Whether a node is one of the named tables, not hidden by a CTE of the same name."""
    if not isinstance(node, exp.Table):
        return False
    name = node.name.lower()
    return name in names and name not in local_tables


def _bind_table(
    node: exp.Expr, tables: Tables, physical: PhysicalTables, local_tables: frozenset[str]
) -> exp.Expr:
    if isinstance(node, exp.Subquery):
        return _bind_query(node, tables, physical, local_tables)
    name = node.name.lower()
    if name in local_tables:
        return node
    if name not in tables.derived or name in tables.streams:
        return exp.alias_(physical[name], node.alias_or_name, table=True, quoted=True)
    derived_query = parse(tables.derived[name])
    bound_query = _bind_query(derived_query, tables.without_derived(name), physical, frozenset())
    alias = exp.to_identifier(node.alias_or_name, quoted=True)
    return exp.Subquery(this=bound_query, alias=exp.TableAlias(this=alias))


def _add_validity_condition(
    select: exp.Select, clause: exp.Expr, alias: str, row_time: exp.Column
) -> None:
    """Join the version of a relation's row that was valid at the time of the stream's row."""
    valid_from = exp.column(VALID_FROM, table=alias, quoted=True)
    valid_to = exp.column(VALID_TO, table=alias, quoted=True)
    is_valid = exp.and_(
        exp.GTE(this=row_time.copy(), expression=valid_from),
        exp.LT(this=row_time.copy(), expression=valid_to),
    )
    if not isinstance(clause, exp.Join):
        select.where(is_valid, copy=False)
    elif clause.args.get("on") is not None:
        clause.set("on", exp.and_(clause.args["on"], is_valid))
    elif clause.side == "LEFT" or clause.method == "NATURAL":
        raise Unsupported(f"write the join of {alias} with ON", clause)
    else:
        select.where(is_valid, copy=False)
