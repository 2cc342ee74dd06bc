"""How many tables a query reads once all names in it are written out. Pure.

Names for queries can double at each step what they stand for: thirty short lines may mean a billion tables.
"""

from collections.abc import Mapping

from sqlglot import exp

from recall.query.shape import Unsupported, parse

MAX_TABLES = 64


def check_table_count(sql: str, derived: Mapping[str, str]) -> None:
    """Raises `Unsupported` where a query over streams and `derived` streams reads more than `MOST` tables."""
    known: dict[str, int] = {}
    count = _count_tables(
        parse(sql), {}, {name.lower(): text for name, text in derived.items()}, known
    )
    if count > MAX_TABLES:
        raise Unsupported(
            f"reads {min(count, 10**9):,} tables once every name is written out; at most {MAX_TABLES} may be"
        )


def _count_tables(
    node: exp.Expr, names: Mapping[str, int], derived: Mapping[str, str], known: dict[str, int]
) -> int:
    """`names`: what the common tables in sight read; `known`: what derived streams read, filled in here."""
    if isinstance(node, exp.Table) and not isinstance(node.this, exp.Func):
        name = node.name.lower()
        if name in names:
            return names[name]
        if name in derived and name not in known:
            known[name] = 1  # one that reads itself is refused elsewhere
            known[name] = _count_tables(parse(derived[name]), {}, derived, known)
        return known.get(name, 1)
    with_ = node.args.get("with_")
    if with_ is not None:
        inner = dict(names)
        for one in with_.expressions:
            inner[one.alias.lower()] = _count_tables(one.this, inner, derived, known)
        names = inner
    return sum(
        _count_tables(child, names, derived, known)
        for child in node.iter_expressions()
        if child is not with_
    )
