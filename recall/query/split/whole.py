"""Queries that cannot be taken apart: evaluated over a growing range of history, each time anew."""

from sqlglot import exp

from recall.query.parsing import Unsupported
from recall.query.parts import check_determined, is_inside
from recall.query.split.model import Split
from recall.query.sql_names import MERGED_TABLE, ROW_NUMBER
from recall.query.wrapping import wrap_ordered


def keep_whole(query: exp.Query, reason: str) -> Split:
    """The query as its own partial answer. Raises `Unsupported`. `reason`: why it stays whole."""
    check_determined(query)
    select = query if isinstance(query, exp.Select) else wrap_ordered(query)
    _sort_lists(select)
    names: list[str] = []
    for output in select.expressions:
        if output.is_star:
            continue
        name = output.sql(dialect="spark")
        if isinstance(output, exp.Alias | exp.Column):
            name = output.alias_or_name
        if name.lower() in map(str.lower, names):
            raise Unsupported(f"two columns are named {name}: rename one with AS", output)
        names.append(name)
    columns: list[exp.Expr] = [exp.column(name, quoted=True) for name in names]
    is_ordered = any(map(select.args.get, ("order", "limit", "offset")))
    if select.is_star:
        star = exp.Star()
        if is_ordered:
            star.set("except_", [exp.column(ROW_NUMBER)])
        columns = [star]
    merge = exp.select(*columns).from_(MERGED_TABLE)
    if is_ordered:
        merge.set(
            "order",
            exp.Order(expressions=[exp.Ordered(this=exp.column(ROW_NUMBER), nulls_first=True)]),
        )
    return Split(select, merge, whole=reason)


def _sort_lists(select: exp.Select) -> None:
    """Sort what `collect_list` and the like return, in place: no order of rows is determined."""
    for node in list(select.find_all(exp.ArrayAgg, exp.ArrayUniqueAgg)):
        clause = node.parent if isinstance(node.parent, exp.Filter) else node
        if is_inside(node, (exp.Window,)) or isinstance(clause.parent, exp.ArraySort):
            continue
        is_output = isinstance(clause.parent, exp.Select)
        name = clause.sql(dialect="spark")
        parent_sorted: exp.Expr = exp.ArraySort(this=clause.copy(), nulls_first=exp.true())
        if is_output:
            parent_sorted = exp.alias_(parent_sorted, name, quoted=True)
        clause.replace(parent_sorted)
