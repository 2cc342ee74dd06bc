"""A question to the past in two parts: a partial answer for each piece of history, and how these merge.

Aggregates are taken apart (an average into a sum and a count, a variance into count, mean and sum of squared
differences), computed over each piece, and merged; outputs, HAVING, ORDER BY and LIMIT are evaluated over what is
merged. Both parts are again queries about an event. Pure.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlglot import exp

from recall.query.parts import aggregates_of, check_supported, normalize_aggregates, own_nodes
from recall.query.shape import Tables, Unsupported, parse
from recall.query.split.grouped import split_groups
from recall.query.split.history import find_history
from recall.query.split.model import (
    LIST_KINDS,
    MERGED_TABLE,
    SKETCH_KINDS,
    VARIANCE_KINDS,
    AggregateKind,
    Split,
    SplitAggregate,
)
from recall.query.split.rows import split_rows

__all__ = [
    "LIST_KINDS",
    "MERGED_TABLE",
    "SKETCH_KINDS",
    "VARIANCE_KINDS",
    "SplitAggregate",
    "AggregateKind",
    "Split",
    "order_columns",
    "split_query",
]


def split_query(sql: str, tables: Tables, types: Mapping[str, str] | None = None) -> Split:
    """Take a query apart. Raises `Unsupported`, saying why, for what cannot be computed piece by piece.

    `types`: of groups and values (see `Split.typing`), as far as known; decimals are averaged exactly where they are.
    """
    query = normalize_aggregates(parse(sql))
    if not isinstance(query, exp.Select):
        raise Unsupported("a recall is one SELECT; put a UNION ALL in brackets in FROM", query)
    check_supported(query)
    history = find_history(query, tables)
    windows = own_nodes(query, exp.Window)
    if windows:
        raise Unsupported(
            "window functions (OVER) need all of history at once; use GROUP BY", windows[0]
        )
    if query.args.get("offset"):
        raise Unsupported(
            "OFFSET cannot be split into pieces of history; use a greater LIMIT", query
        )
    if query.args.get("group") or query.args.get("distinct") or any(aggregates_of(query)):
        return split_groups(query, types or {})
    if query.args.get("having"):
        raise Unsupported("HAVING is for groups; use WHERE", query.args["having"])
    return split_rows(query, history, tables)


def order_columns(sql: str, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows of an answer with their columns in the order of the SELECT: what was stored may have lost it."""
    query = parse(sql)
    place = {
        p.alias_or_name or p.sql(dialect="spark"): number for number, p in enumerate(query.selects)
    }
    return [
        {name: row[name] for name in sorted(row, key=lambda one: place.get(one, len(place)))}
        for row in rows
    ]
