"""How many tables a query reads once WITH and derived streams are expanded. No I/O.

Each name can stand for twice as many tables as the one before: thirty lines may mean a billion.
"""

from collections.abc import Mapping

from sqlglot import exp

from recall.query.parsing import Unsupported, read_query
from recall.query.parts import common_tables

MAX_TABLES = 64
_MAX_REPORTED_TABLES = 10**9


def check_table_count(sql: str, derived: Mapping[str, str]) -> None:
    """Raises `Unsupported` if a query reads more than `MAX_TABLES` tables.

    `derived`: the SQL of derived streams, by name.
    """
    derived_sql = {name.lower(): text for name, text in derived.items()}
    count = _count_tables(read_query(sql), {}, derived_sql, {})
    if count > MAX_TABLES:
        raise Unsupported(
            f"reads {min(count, _MAX_REPORTED_TABLES):,} tables after expanding WITH and derived "
            f"streams; the limit is {MAX_TABLES}"
        )


def _count_tables(
    node: exp.Expr,
    local_counts: Mapping[str, int],
    derived: Mapping[str, str],
    derived_counts: dict[str, int],
) -> int:
    """`local_counts`: the counts of visible CTEs; `derived_counts`: a cache, filled in here."""
    if isinstance(node, exp.Table) and not isinstance(node.this, exp.Func):
        name = node.name.lower()
        if name in local_counts:
            return local_counts[name]
        if name in derived and name not in derived_counts:
            derived_counts[name] = 1  # a stream that reads itself is refused elsewhere
            derived_counts[name] = _count_tables(
                read_query(derived[name]), {}, derived, derived_counts
            )
        return derived_counts.get(name, 1)
    ctes = common_tables(node)
    if ctes:
        visible_counts = dict(local_counts)
        for cte in ctes:
            visible_counts[cte.alias.lower()] = _count_tables(
                cte.this, visible_counts, derived, derived_counts
            )
        local_counts = visible_counts
    total = 0
    for child in node.iter_expressions():
        if not isinstance(child, exp.With):
            total += _count_tables(child, local_counts, derived, derived_counts)
    return total
