"""A question to the past in two parts: a partial answer for each piece of history, and how these merge.

Aggregates are taken apart (an average into a sum and a count, a variance into count, mean and sum of squared
differences), computed over each piece, and merged; outputs, HAVING, ORDER BY and LIMIT are evaluated over what is
merged. Both parts are again queries about an event. Pure.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlglot import exp

from recall.query.parts import aggregates_of, own, plain_names, refuse_parts
from recall.query.shape import Tables, Unsupported, parse
from recall.query.split.grouped import grouped
from recall.query.split.history import history_of
from recall.query.split.model import LISTS, MERGED, SKETCHES, VARIANCES, Aggregate, Kind, Split
from recall.query.split.rows import rows

__all__ = ["LISTS", "MERGED", "SKETCHES", "VARIANCES", "Aggregate", "Kind", "Split", "in_order", "split"]


def split(sql: str, tables: Tables, types: Mapping[str, str] | None = None) -> Split:
    """Take a query apart. Raises `Unsupported`, saying why, for what cannot be computed piece by piece.

    `types`: of groups and values (see `Split.typing`), as far as known; decimals are averaged exactly where they are.
    """
    query = plain_names(parse(sql))
    if not isinstance(query, exp.Select):
        raise Unsupported("a recall is one SELECT; put a UNION ALL in brackets in FROM", query)
    refuse_parts(query)
    history = history_of(query, tables)
    windows = own(query, exp.Window)
    if windows:
        raise Unsupported("window functions (OVER) need all of history at once; use GROUP BY", windows[0])
    if query.args.get("offset"):
        raise Unsupported("OFFSET cannot be split into pieces of history; use a greater LIMIT", query)
    if query.args.get("group") or query.args.get("distinct") or any(aggregates_of(query)):
        return grouped(query, types or {})
    if query.args.get("having"):
        raise Unsupported("HAVING is for groups; use WHERE", query.args["having"])
    return rows(query, history, tables)


def in_order(sql: str, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows of an answer with their columns in the order of the SELECT: what was stored may have lost it."""
    query = parse(sql)
    place = {p.alias_or_name or p.sql(dialect="spark"): number for number, p in enumerate(query.selects)}
    return [{name: row[name] for name in sorted(row, key=lambda one: place.get(one, len(place)))} for row in rows]
