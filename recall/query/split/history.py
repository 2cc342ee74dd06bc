"""The one source of a query that reads history, and whether it can be read piece by piece."""

from collections.abc import Mapping

from sqlglot import exp

from recall.query.parsing import Unsplittable
from recall.query.parts import aggregates_of, common_tables, joins_of, own_nodes, sources_of
from recall.query.shape import Tables

# Whether a CTE reads history, by its name in lower case.
LocalTables = Mapping[str, bool]


def find_history(query: exp.Select, tables: Tables) -> exp.Expr:
    """The table or subquery in FROM through which a query reads history.

    Raises `Unsupported` if there is none, or if it cannot be read piece by piece.
    """
    return _single_history_source(query, tables, _add_common_tables(query, tables, {}))


def _add_common_tables(query: exp.Expr, tables: Tables, local_tables: LocalTables) -> LocalTables:
    visible_tables = dict(local_tables)
    for cte in common_tables(query):
        visible_tables[cte.alias.lower()] = _reads_history(cte.this, tables, visible_tables)
    return visible_tables


def _single_history_source(
    query: exp.Select, tables: Tables, local_tables: LocalTables
) -> exp.Expr:
    for source in sources_of(query):
        if isinstance(source, exp.Lateral):
            raise Unsplittable("LATERAL (SELECT …) needs all rows of history", source)
    sources = [
        source for source in sources_of(query) if _reads_history(source, tables, local_tables)
    ]
    if not sources:
        raise Unsplittable("a query that reads no stream has no pieces of history", query)
    for join in joins_of(query):
        if join.kind in ("SEMI", "ANTI") and any(join.this is source for source in sources):
            raise Unsplittable("EXISTS and IN over a stream need all rows of history", join)
    if len(sources) > 1:
        raise Unsplittable("a join of streams needs all rows of history", sources[1])
    history = sources[0]
    for join in joins_of(query):
        if join.side == "FULL" or (join.side and (join.side == "RIGHT") != (join.this is history)):
            remedy = ""
            if join.side == "LEFT":
                remedy = f"; with the stream first (FROM {history.alias_or_name}) it does not"
            raise Unsplittable(
                f"{join.side} JOIN of the stream needs all rows of history{remedy}", join
            )
    return history


def _reads_history(source: exp.Expr, tables: Tables, local_tables: LocalTables) -> bool:
    if isinstance(source, exp.Table):
        name = source.name.lower()
        return local_tables.get(name, name in tables.streams or name in tables.derived)
    if isinstance(source, exp.Subquery):
        return _reads_history(source.this, tables, local_tables)
    local_tables = _add_common_tables(source, tables, local_tables)
    if isinstance(source, exp.SetOperation):
        return _union_reads_history(source, tables, local_tables)
    if isinstance(source, exp.Select):
        return _select_reads_history(source, tables, local_tables)
    return False


def _union_reads_history(
    union: exp.SetOperation, tables: Tables, local_tables: LocalTables
) -> bool:
    first_reads_history = _reads_history(union.this, tables, local_tables)
    second_reads_history = _reads_history(union.expression, tables, local_tables)
    if not first_reads_history and not second_reads_history:
        return False
    if not isinstance(union, exp.Union) or union.args.get("distinct"):
        raise Unsplittable("UNION, INTERSECT and EXCEPT need all rows of history", union)
    return True


def _select_reads_history(select: exp.Select, tables: Tables, local_tables: LocalTables) -> bool:
    """A subquery of history must yield each row independently of all others."""
    if not any(_reads_history(source, tables, local_tables) for source in sources_of(select)):
        return False
    _single_history_source(select, tables, local_tables)
    needs_all_rows = (
        any(map(select.args.get, ("group", "distinct", "limit", "offset", "order")))
        or any(aggregates_of(select))
        or own_nodes(select, exp.Window)
    )
    if needs_all_rows:
        raise Unsplittable(
            "groups, DISTINCT, LIMIT and OVER inside a subquery need all rows of history", select
        )
    return True
