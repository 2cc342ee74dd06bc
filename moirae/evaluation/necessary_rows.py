"""Which archived rows plain rules can need at all, as SQL of DuckDB that a scan of files decides.

A rule's conditions on single rows come before its windows and joins: rows without them do not matter.
What several rules ask with other constants is asked once, with the weakest constant. No I/O.
"""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from sqlglot import exp

from moirae.evaluation.plan import ActiveRule
from recall.errors import SparkRequired
from recall.query import joins_of
from recall.query.plain import PLAIN_TYPES, DuckDBDialect, ExpressionWriter, select_columns

_MAX_ALTERNATIVES = 32  # conditions that are written side by side; more are left out
# By comparison: its mirror image, and which of several constants is the weakest.
_Choice = Callable[[Sequence[Decimal]], Decimal]
_ORDERS: dict[type[exp.Expr], tuple[type[exp.Expr], _Choice]] = {
    exp.GT: (exp.LT, min),
    exp.GTE: (exp.LTE, min),
    exp.LT: (exp.GT, max),
    exp.LTE: (exp.GTE, max),
}


class NecessaryRows(NamedTuple):
    """`columns`: those that the rules name. `condition`: holds for each row that they need."""

    columns: tuple[str, ...]
    condition: str


def find_necessary_rows(
    groups: Sequence[Sequence[ActiveRule]], view: str, columns: Mapping[str, str]
) -> NecessaryRows | None:
    """What groups of plain rules need of a stream; None: all of its rows.

    The rules of a group differ in constants alone. `view`: of the stream in their queries; `columns`:
    their types.
    """
    writer = ExpressionWriter(DuckDBDialect(), parameterized=False)
    writer.add_table(view, select_columns(columns, PLAIN_TYPES))
    conditions: dict[str, None] = {}
    names: set[str] = set()
    for rules in groups:
        queries = [rule.bind_event_query() for rule in rules]
        condition = _write_condition(queries, view, writer)
        if condition is None:
            return None
        conditions[condition] = None
        if any(_selects_all(query) for query in queries):
            names |= columns.keys()
        names.update(node.name.lower() for query in queries for node in query.find_all(exp.Column))
    if len(conditions) > _MAX_ALTERNATIVES:
        return None
    needed = tuple(name for name in columns if name.lower() in names)
    return NecessaryRows(needed, " OR ".join(conditions))


def _selects_all(query: exp.Query) -> bool:
    return any(not isinstance(star.parent, exp.Count) for star in query.find_all(exp.Star))


def _write_condition(
    queries: Sequence[exp.Query], view: str, writer: ExpressionWriter
) -> str | None:
    """What the rows of any of some queries have in common; None: nothing that is known."""
    parts = [_find_parts(query, view) for query in queries]
    if len({len(query_parts) for query_parts in parts}) != 1:
        return None
    written: list[str] = []
    for alternatives in zip(*parts, strict=True):
        try:
            texts = dict.fromkeys(map(writer.write_condition, _weaken(alternatives)))
        except SparkRequired:
            continue
        if len(texts) <= _MAX_ALTERNATIVES:
            written.append(f"({' OR '.join(texts)})")
    return f"({' AND '.join(written)})" if written else None


def _find_parts(query: exp.Query, view: str) -> list[exp.Expr]:
    """The conditions on single rows of the stream, all of which a row must fulfil."""
    select: exp.Expr = query
    while isinstance(select.args["from_"].this, exp.Subquery):
        select = select.args["from_"].this.this
    source = select.args["from_"].this
    where = select.args.get("where")
    if where is None or not isinstance(source, exp.Table) or source.name != view:
        return []
    alias = source.alias_or_name.lower()
    # Without a qualifier a column may be one of a relation.
    owners = {alias} if joins_of(select) else {alias, ""}
    condition = where.this.unnest()
    parts = list(condition.flatten()) if isinstance(condition, exp.And) else [condition]
    return [
        _without_qualifiers(part)
        for part in parts
        if all(column.table.lower() in owners for column in part.find_all(exp.Column))
    ]


def _without_qualifiers(part: exp.Expr) -> exp.Expr:
    part = part.copy()
    for column in part.find_all(exp.Column):
        column.set("table", None)
    return part


def _weaken(alternatives: Sequence[exp.Expr]) -> Sequence[exp.Expr]:
    """The weakest of comparisons of one value with numbers; other alternatives as they are."""
    comparisons = list(map(_read_comparison, alternatives))
    first = comparisons[0]
    if first is None or len(alternatives) == 1:
        return alternatives
    if any(item is None or item[:2] != first[:2] for item in comparisons):
        return alternatives
    _, choose = _ORDERS[first[0]]
    numbers = [item[2] for item in comparisons if item is not None]
    position = numbers.index(choose(numbers))
    return [alternatives[position]]


def _read_comparison(node: exp.Expr) -> tuple[Any, exp.Expr, Decimal] | None:
    """The comparison, the value, and the number that it is compared with."""
    node = node.unnest()
    if type(node) not in _ORDERS:
        return None
    left, right = node.this.unnest(), node.expression.unnest()
    number = _read_number(right)
    if number is not None:
        return type(node), left, number
    number = _read_number(left)
    return None if number is None else (_ORDERS[type(node)][0], right, number)


def _read_number(node: exp.Expr) -> Decimal | None:
    if isinstance(node, exp.Neg):
        number = _read_number(node.this.unnest())
        return None if number is None else -number
    if isinstance(node, exp.Literal) and not node.is_string:
        return Decimal(node.name)
    return None
