"""Sides of set operations in parentheses, written without them. No I/O."""

from itertools import count

from sqlglot import exp

from recall.query.parsing import Unsupported


def open_parentheses(query: exp.Query) -> exp.Query:
    """The query with `SELECT …` in place of `(SELECT …)` as a side of UNION and the like, in place.

    A side that is ordered, limited or itself a set operation becomes a subquery of FROM. Raises
    `Unsupported` for ORDER BY, LIMIT and OFFSET behind parentheses inside of the query.
    """
    for subquery in query.find_all(exp.Subquery):
        if subquery is not query and any(map(subquery.args.get, ("order", "limit", "offset"))):
            raise Unsupported("write ORDER BY and LIMIT inside of the parentheses", subquery)
    names = map("_p{}".format, count())
    for operation in reversed(list(query.find_all(exp.SetOperation))):
        for side in ("this", "expression"):
            rows = operation.args[side]
            if not isinstance(rows, exp.Subquery) or rows.alias:
                continue
            inner = rows.unnest()
            assert isinstance(inner, exp.Query)
            is_plain = isinstance(inner, exp.Select) and not any(
                map(inner.args.get, ("order", "limit", "offset", "with_"))
            )
            if not is_plain:
                inner = exp.select("*").from_(inner.subquery(next(names)))
            operation.set(side, inner)
    return query
