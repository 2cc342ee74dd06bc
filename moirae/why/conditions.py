"""The conditions of an event query, and the query without some of them. No I/O."""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from sqlglot import exp

from recall.query import common_tables, sources_of, sql_names

EVENT_QUERY = "expr"
"""The name of the outermost stage."""

_VALIDITY = frozenset({sql_names.VALID_FROM, sql_names.VALID_TO})


class SelectStage(NamedTuple):
    """A SELECT of a query, by the alias that it is read under."""

    name: str
    select: exp.Select


class ConditionNode(NamedTuple):
    """A condition: one of those that AND connects in WHERE or HAVING."""

    stage: str
    clause: str
    node: exp.Expr

    @property
    def text(self) -> str:
        """The condition as SQL."""
        return format_sql(self.node)


def list_selects(query: exp.Expr, name: str = EVENT_QUERY) -> Iterator[SelectStage]:
    """The SELECTs of a bound query in the order of their evaluation: what others read comes first."""
    for cte in common_tables(query):
        yield from list_selects(cte.this, cte.alias)
    if isinstance(query, exp.SetOperation):
        yield from list_selects(query.this, name)
        yield from list_selects(query.expression, name)
    elif isinstance(query, exp.Subquery):
        yield from list_selects(query.this, query.alias_or_name or name)
    elif isinstance(query, exp.Select):
        for source in sources_of(query):
            if isinstance(source, exp.Subquery):
                yield from list_selects(source, name)
        yield SelectStage(name, query)


def list_conditions(query: exp.Expr) -> list[ConditionNode]:
    """All conditions in the order of their evaluation. Those of a copy have the same positions."""
    return [
        ConditionNode(stage.name, clause, node)
        for stage in list_selects(query)
        for clause in ("where", "having")
        for node in conjuncts_of(stage.select, clause)
    ]


def conjuncts_of(select: exp.Select, clause: str) -> list[exp.Expr]:
    """What AND connects in a clause, without the conditions on versions of relations."""
    condition = select.args.get(clause)
    if condition is None:
        return []
    return [node for node in _split(condition.this) if not _is_validity(node)]


def remove_conditions(query: exp.Query, positions: Collection[int]) -> exp.Query:
    """A copy of a query in which some conditions are true."""
    copy = query.copy()
    nodes = list_conditions(copy)
    for position in positions:
        nodes[position].node.replace(exp.true())
    return copy


def format_sql(node: exp.Expr) -> str:
    """A part of a bound query as its author would write it."""
    return node.sql(dialect="spark").replace("`", "")


def find_operands(condition: exp.Expr) -> Sequence[exp.Expr]:
    """What a condition compares: its sides, or else its columns."""
    node = condition.unnest()
    while isinstance(node, exp.Not):
        node = node.this.unnest()
    sides: list[exp.Expr] = list(node.find_all(exp.Column))
    if isinstance(node, exp.Predicate | exp.Between | exp.In):
        sides = [node.this, *([node.expression] if isinstance(node, exp.Binary) else [])]
    unique = {format_sql(side): side for side in sides if not _is_constant(side)}
    return list(unique.values())


def _split(condition: exp.Expr) -> Iterator[exp.Expr]:
    node = condition.unnest() if isinstance(condition.unnest(), exp.And) else condition
    if isinstance(node, exp.And):
        yield from _split(node.this)
        yield from _split(node.expression)
    else:
        yield node


def _is_validity(node: exp.Expr) -> bool:
    return any(column.name in _VALIDITY for column in node.find_all(exp.Column))


def _is_constant(node: exp.Expr) -> bool:
    return next(node.find_all(exp.Column, exp.AggFunc, exp.Anonymous), None) is None
