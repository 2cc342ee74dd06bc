"""Parts of a SELECT that rewriting a query about an event looks for: aggregates, attributes, what is refused. Pure."""

from collections.abc import Iterator
from typing import TypeVar

from sqlglot import exp

from recall.query.shape import Unsupported, is_array_exists

EVENT = "event"

_REFUSED_NODES: dict[type[exp.Expr], str] = {
    exp.Exists: "EXISTS is not supported in a query about an event; join the table in FROM",
    exp.Pivot: "PIVOT is not supported in a query about an event",
    exp.TableSample: "TABLESAMPLE is not supported in a query about an event",
    exp.WithinGroup: "WITHIN GROUP is not supported; use percentile(x, 0.5) or median(x)",
    exp.GroupConcat: "listagg depends on the order of rows; use array_join(array_sort(collect_list(x)), ', ')",
}
_GROUPING_SETS = ("rollup", "cube", "grouping_sets", "totals", "all")


def check_supported(select: exp.Select) -> None:
    """Raises `Unsupported` for what no query about an event can have."""
    for kind, message in _REFUSED_NODES.items():
        for node in own_nodes(select, kind):
            if not is_array_exists(node):
                raise Unsupported(message, node)
    for node in [*own_nodes(select, exp.ArgMin), *own_nodes(select, exp.ArgMax)]:
        if node.args.get("count") is not None:
            raise Unsupported(
                "min_by and max_by take two values here; for the first rows use ORDER BY and LIMIT",
                node,
            )
    for node in own_nodes(select, exp.Subquery):
        if not isinstance(node.parent, exp.From | exp.Join):
            raise Unsupported("a subquery is supported in FROM only", node)
    for node in own_nodes(select, exp.In):
        if node.args.get("query") is not None:
            raise Unsupported(
                "IN (SELECT …) is not supported in a query about an event; join the table", node
            )


Part = TypeVar("Part", bound=exp.Expr)


def check_plain_groups(group: exp.Expr) -> None:
    """Raises `Unsupported` for groups of groups."""
    sets = any(
        isinstance(key, exp.Rollup | exp.Cube | exp.GroupingSets) for key in group.expressions
    )
    if sets or any(group.args.get(kind) for kind in _GROUPING_SETS):
        raise Unsupported("GROUP BY takes plain expressions here", group)


def own_nodes(select: exp.Select, node_type: type[Part]) -> list[Part]:
    """Parts of this SELECT, not of those inside it."""
    return [
        n
        for n in select.find_all(node_type)
        if n is not select and n.find_ancestor(exp.Select) is select
    ]


# Aggregates of Spark that the parser takes for any function.
_UNPARSED_AGGREGATES = frozenset(
    (
        "approx_top_k approx_top_k_accumulate approx_top_k_combine array_agg bitmap_and_agg bitmap_construct_agg "
        "bitmap_or_agg count_min_sketch histogram_numeric hll_sketch_agg hll_union_agg kll_merge_agg_bigint "
        "kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float "
        "kurtosis mode percentile_cont percentile_disc regr_avgx regr_avgy regr_count regr_intercept regr_r2 "
        "regr_slope regr_sxx regr_sxy regr_syy skewness string_agg theta_intersection_agg theta_sketch_agg "
        "theta_union_agg try_avg try_sum tuple_intersection_agg_double tuple_intersection_agg_integer "
        "tuple_sketch_agg_double tuple_sketch_agg_integer tuple_union_agg_double tuple_union_agg_integer"
    ).split()
)
# Other names of aggregates, which the parser does not know by these.
_AGGREGATE_ALIASES: dict[str, type[exp.AggFunc]] = {
    "mean": exp.Avg,
    "std": exp.StddevSamp,
    "every": exp.LogicalAnd,
    "some": exp.LogicalOr,
}


def normalize_aggregates(query: Part) -> Part:
    """The query with aggregates under the names that the parser knows, in place; its outputs keep theirs."""
    for node in list(query.find_all(exp.Anonymous, exp.Any)):
        kind = (
            exp.LogicalOr
            if isinstance(node, exp.Any)
            else _AGGREGATE_ALIASES.get(node.name.lower())
        )
        argument = (
            node.this.unnest()
            if isinstance(node, exp.Any)
            else node.expressions[0]
            if node.expressions
            else None
        )
        if kind is None or argument is None or isinstance(argument, exp.Query):
            continue
        if (
            isinstance(node, exp.Any)
            and isinstance(node.parent, exp.Binary)
            and node.arg_key == "expression"
        ):
            continue  # x = ANY (…)
        made: exp.Expr = kind(this=argument.copy())
        if isinstance(node.parent, exp.Select) and node.arg_key == "expressions":
            made = exp.alias_(made, node.sql(dialect="spark"), quoted=True)
        node.replace(made)
    return query


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a function is an aggregate."""
    return isinstance(node, exp.AggFunc) or (
        isinstance(node, exp.Anonymous) and node.name.lower() in _UNPARSED_AGGREGATES
    )


def aggregates_of(select: exp.Select) -> Iterator[exp.Expr]:
    """The outermost aggregates of this SELECT that are not over windows of rows."""
    for node in own_nodes(select, exp.Func):
        if is_aggregate(node) and not is_inside(node, (exp.Window, exp.AggFunc)):
            yield node


def event_columns(node: exp.Expr) -> Iterator[tuple[str, exp.Column]]:
    """Each `event.<attribute>` in a query, with the attribute's name."""
    for column in node.find_all(exp.Column):
        if column.table.lower() == EVENT:
            if column.db or not isinstance(column.this, exp.Identifier):
                raise Unsupported("event.<attribute> takes one name", column)
            yield column.name, column


def is_inside(node: exp.Expr, node_types: tuple[type[exp.Expr], ...]) -> bool:
    parent = node.parent
    while parent is not None and not isinstance(parent, exp.Select):
        if isinstance(parent, node_types):
            return True
        parent = parent.parent
    return False
