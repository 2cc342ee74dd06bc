"""What a row of a stream needs to take part in a query that is more than a filter. No I/O.

A query that joins relations, groups by windows or calls functions that only Spark knows has the same
result without the rows for which its WHERE cannot hold. Without any row it has none.
"""

from collections.abc import Container, Mapping

from sqlglot import exp

from moirae.evaluation.index.anchors import Necessary, all_of, any_of
from moirae.evaluation.index.conditions import ConditionCompiler
from moirae.evaluation.index.values import RowLayout
from recall.errors import SparkRequired
from recall.query import aggregates_of, clauses_of, sources_of

_CLAUSES = {"expressions", "from_", "joins", "where", "group", "having", "distinct"}
_INNER_KINDS = {("", ""), ("", "INNER"), ("", "CROSS")}
# Joins that return a row of the left side, or none, whatever the right side has.
_LEFT_KINDS = {
    ("LEFT", ""),
    ("LEFT", "OUTER"),
    ("LEFT", "SEMI"),
    ("", "SEMI"),
    ("LEFT", "ANTI"),
    ("", "ANTI"),
}


def find_necessary(
    query: exp.Query, layouts: Mapping[str, RowLayout]
) -> tuple[str, Necessary] | None:
    """The stream's table that a query reads, and what its rows need; None: not known.

    `layouts`: of the streams' tables.
    """
    scan = find_scan(query, layouts)
    if scan is None:
        return None
    select, table = scan
    compiler = ConditionCompiler(layouts[table.name], table.alias_or_name)
    conditions: list[exp.Expr] = []
    where = select.args.get("where")
    if where is not None:
        conditions.append(where.this)
    for join in select.args.get("joins") or ():
        on = join.args.get("on")
        if on is not None and (join.side, join.kind) in _INNER_KINDS:
            conditions.append(on)
    necessary = all_of([_needs_of(condition, compiler)[0] for condition in conditions])
    return None if necessary is None else (table.name, necessary)


def _needs_of(node: exp.Expr, compiler: ConditionCompiler) -> tuple[Necessary, Necessary]:
    """What is necessary for a condition to be true, and for it to be false."""
    node = node.unnest()
    if isinstance(node, exp.And | exp.Or):
        needs = [_needs_of(part, compiler) for part in node.flatten()]
        truths = [if_true for if_true, _ in needs]
        falsehoods = [if_false for _, if_false in needs]
        if isinstance(node, exp.And):
            return all_of(truths), any_of(falsehoods)
        return any_of(truths), all_of(falsehoods)
    if isinstance(node, exp.Not):
        if_true, if_false = _needs_of(node.this, compiler)
        return if_false, if_true
    try:
        condition = compiler.compile_condition(node)
    except SparkRequired:
        return None, None
    return condition.if_true, condition.if_false


def find_scan(query: exp.Expr, streams: Container[str]) -> tuple[exp.Select, exp.Table] | None:
    """The SELECT that reads the rows of a stream, and the table that it reads them from.

    `streams`: the tables of streams. None if the stream is read twice, or if rows of it may add to the
    result by their absence.
    """
    tables = [table for table in query.find_all(exp.Table) if table.name in streams]
    if len(tables) != 1:
        return None
    (table,) = tables
    if clauses_of(table) - {"this", "alias"} or table.alias_column_names:
        return None
    while isinstance(query, exp.Select):
        if clauses_of(query) - _CLAUSES or _returns_row_without_input(query):
            return None
        source = _required_source(query, table)
        if source is table:
            return query, table
        if not isinstance(source, exp.Subquery) or clauses_of(source) - {"this", "alias"}:
            return None
        query = source.this
    return None


def _returns_row_without_input(select: exp.Select) -> bool:
    group = select.args.get("group")
    if group is not None:
        return bool(clauses_of(group) - {"expressions"})
    return select.args.get("having") is not None or any(aggregates_of(select))


def _required_source(select: exp.Select, table: exp.Table) -> exp.Expr | None:
    """What FROM or JOIN reads a table by, if each row of the result has a row of it."""
    first, *joined = sources_of(select)
    kinds = [(join.side, join.kind) for join in select.args.get("joins") or ()]
    if any(kind not in _INNER_KINDS | _LEFT_KINDS for kind in kinds):
        return None
    if _contains(first, table):
        return first
    for source, kind in zip(joined, kinds, strict=True):
        if _contains(source, table):
            return source if kind in _INNER_KINDS else None
    return None


def _contains(source: exp.Expr, table: exp.Table) -> bool:
    return any(node is table for node in source.find_all(exp.Table))
