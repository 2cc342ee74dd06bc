"""A query about an event in two parts: a partial answer for each piece of history, and their merge.

Aggregates are taken apart (an average into sum and count, a variance into count, mean and sum of
squared differences), computed over each piece and merged. Outputs, HAVING, ORDER BY and LIMIT are
evaluated over the merged values. Both parts are queries about an event again. A query that cannot
be taken apart stays whole. No I/O.
"""

from collections.abc import Mapping

from sqlglot import exp

from recall.query.parentheses import open_parentheses
from recall.query.parsing import Unsplittable, Unsupported, parse
from recall.query.parts import (
    aggregates_of,
    check_supported,
    normalize_aggregates,
    own_nodes,
    own_subqueries,
)
from recall.query.semi_joins import join_subqueries
from recall.query.shape import Tables
from recall.query.split.frequent import split_frequent
from recall.query.split.grouped import split_groups
from recall.query.split.history import find_history
from recall.query.split.model import (
    LIST_KINDS,
    LIST_LENGTH,
    SKETCH_KINDS,
    VARIANCE_KINDS,
    AggregateKind,
    Split,
    SplitAggregate,
)
from recall.query.split.rows import split_rows
from recall.query.split.whole import keep_whole
from recall.query.top_values import expand_top, find_top
from recall.query.wrapping import expand_group_by_all, expand_qualify

__all__ = [
    "LIST_KINDS",
    "LIST_LENGTH",
    "SKETCH_KINDS",
    "VARIANCE_KINDS",
    "AggregateKind",
    "Split",
    "SplitAggregate",
    "parse_recall",
    "selects_plain_rows",
    "split_query",
]


def split_query(sql: str, tables: Tables, types: Mapping[str, str] | None = None) -> Split:
    """Take a query apart, or keep it whole. Raises `Unsupported` if neither is possible.

    `types`: Spark's types of groups and values by column (see `Split.type_probe`), if known.
    Averages of decimals are exact only if their type is known.
    """
    query = parse_recall(sql)
    k = find_top(parse(sql))
    if k is not None:
        assert isinstance(query, exp.Select)
        check_supported(query)
        find_history(query, tables)
        return split_frequent(query, k)
    try:
        return _take_apart(query.copy(), tables, types or {})
    except Unsplittable as reason:
        return keep_whole(query, str(reason))


def parse_recall(sql: str) -> exp.Query:
    """The syntax tree of a recall, as it is evaluated. Raises `Unsupported`.

    It has joins in place of EXISTS and IN where possible, no QUALIFY, and no parentheses around
    sides of set operations.
    """
    query = normalize_aggregates(expand_top(parse(sql)))
    return join_subqueries(expand_qualify(open_parentheses(query)))


def _take_apart(query: exp.Query, tables: Tables, types: Mapping[str, str]) -> Split:
    if not isinstance(query, exp.Select):
        _check_reads_stream(query, tables)
        raise Unsplittable("UNION, INTERSECT and EXCEPT need all rows of history", query)
    check_supported(query)
    expand_group_by_all(query)
    _check_reads_stream(query, tables)
    for select in query.find_all(exp.Select):
        for subquery in own_subqueries(select):
            raise Unsplittable("subqueries outside of FROM need all rows of history", subquery)
    history = find_history(query, tables)
    windows = own_nodes(query, exp.Window)
    if windows:
        raise Unsplittable("window functions (OVER) need all rows of history", windows[0])
    if query.args.get("offset"):
        raise Unsplittable("OFFSET needs all rows of history", query.args["offset"])
    if not selects_plain_rows(query):
        return split_groups(query, types)
    if query.args.get("having"):
        raise Unsupported("HAVING requires GROUP BY or aggregates; use WHERE", query.args["having"])
    return split_rows(query, history, tables)


def _check_reads_stream(query: exp.Query, tables: Tables) -> None:
    names = {table.name.lower() for table in query.find_all(exp.Table)}
    if not names & {*tables.streams, *tables.derived, *tables.relations}:
        raise Unsupported("a recall must read a stream", query)


def selects_plain_rows(query: exp.Select) -> bool:
    """Whether a SELECT has no groups, no DISTINCT and no aggregates."""
    if query.args.get("group") or query.args.get("distinct") or find_top(query) is not None:
        return False
    return not any(aggregates_of(query))
