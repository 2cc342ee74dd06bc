"""Parts of a SELECT that several rewriting steps look for. No I/O."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

from sqlglot import exp

from recall.query.parsing import Unsplittable, Unsupported
from recall.query.sql_names import EVENT

Node = TypeVar("Node", bound=exp.Expr)

_UNSUPPORTED_NODES: dict[type[exp.Expr], str] = {
    exp.Pivot: "PIVOT is not supported in a query about an event",
    exp.TableSample: "TABLESAMPLE is not supported in a query about an event",
    exp.WithinGroup: (
        "WITHIN GROUP is supported for mode and percentile_cont only; use percentile(x, 0.5)"
    ),
    exp.GroupConcat: (
        "listagg depends on the order of rows; use array_join(array_sort(collect_list(x)), ', ')"
    ),
}
_FIRST = "which row is first is not determined; use min_by(x, ts)"
_LAST = "which row is last is not determined; use max_by(x, ts)"
_UNDETERMINED: dict[type[exp.Expr], str] = {
    exp.First: _FIRST,
    exp.FirstValue: _FIRST,
    exp.AnyValue: _FIRST,
    exp.Last: _LAST,
    exp.LastValue: _LAST,
}
_GROUPING_SETS = ("rollup", "cube", "grouping_sets", "totals", "all")

# Aggregates of Spark that the parser takes for ordinary functions.
_UNPARSED_AGGREGATES = frozenset(
    """
    approx_top_k approx_top_k_accumulate approx_top_k_combine array_agg bitmap_and_agg
    bitmap_construct_agg bitmap_or_agg count_min_sketch histogram_numeric hll_sketch_agg
    hll_union_agg kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float
    kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float kurtosis mode percentile_cont
    percentile_disc regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx
    regr_sxy regr_syy skewness string_agg theta_intersection_agg theta_sketch_agg theta_union_agg
    try_avg try_sum tuple_intersection_agg_double tuple_intersection_agg_integer
    tuple_sketch_agg_double tuple_sketch_agg_integer tuple_union_agg_double tuple_union_agg_integer
    """.split()
)
# Synonyms of aggregates that the parser does not know.
_AGGREGATE_ALIASES: dict[str, type[exp.AggFunc]] = {
    "mean": exp.Avg,
    "std": exp.StddevSamp,
    "every": exp.LogicalAnd,
    "some": exp.LogicalOr,
}


# Clauses


def common_tables(query: exp.Expr) -> list[exp.Expr]:
    """The CTEs of a query's WITH clause, in order."""
    with_ = query.args.get("with_")
    return [] if with_ is None else with_.expressions


def joins_of(select: exp.Expr) -> list[exp.Join]:
    """The JOIN clauses of a SELECT, in order."""
    return select.args.get("joins") or []


def sources_of(select: exp.Expr) -> list[exp.Expr]:
    """The tables and subqueries that FROM and JOIN read, in order; empty without FROM."""
    from_ = select.args.get("from_")
    if from_ is None:
        return []
    sources = [from_.this]
    for join in joins_of(select):
        sources.append(join.this)
    return sources


def visible_sources_of(select: exp.Expr) -> list[exp.Expr]:
    """The sources of a SELECT whose columns it can name: not those that only keep or drop rows."""
    from_ = select.args.get("from_")
    sources = [] if from_ is None else [from_.this]
    sources += [join.this for join in joins_of(select) if join.kind not in ("SEMI", "ANTI")]
    return sources


def clauses_of(node: exp.Expr) -> set[str]:
    """The names of the arguments of a node that are present, for example of a SELECT's clauses."""
    return {name for name, value in node.args.items() if value}


def aliased_outputs(outputs: Sequence[exp.Expr]) -> dict[str, exp.Expr]:
    """The expressions of a SELECT list that have an alias, by that alias in lower case."""
    return {o.alias.lower(): o.this for o in outputs if isinstance(o, exp.Alias)}


def resolve_output(entry: exp.Expr, outputs: Sequence[exp.Expr]) -> exp.Expr:
    """The expression that an entry of GROUP BY or ORDER BY stands for.

    An entry may name one of `outputs` by its number (from 1) or alias; others stand for themselves.
    """
    if isinstance(entry, exp.Literal) and entry.is_int and 0 < int(entry.name) <= len(outputs):
        return outputs[int(entry.name) - 1].unalias()
    if isinstance(entry, exp.Column) and not entry.table:
        return aliased_outputs(outputs).get(entry.name.lower(), entry)
    return entry


# Nodes


def own_nodes(select: exp.Select, *node_types: type[Node]) -> list[Node]:
    """The nodes of some types that belong to this SELECT and not to a query inside it."""
    nodes = []
    for node in select.find_all(*node_types):
        if node is not select and node.find_ancestor(exp.Select) is select:
            nodes.append(node)
    return nodes


def is_inside(node: exp.Expr, node_types: tuple[type[exp.Expr], ...]) -> bool:
    """Whether a node lies inside a node of these types, within its SELECT."""
    parent = node.parent
    while parent is not None and not isinstance(parent, exp.Select):
        if isinstance(parent, node_types):
            return True
        parent = parent.parent
    return False


def is_array_exists(node: exp.Expr) -> bool:
    """Whether this is the function exists(array, x -> …), not the predicate EXISTS (SELECT …)."""
    return isinstance(node, exp.Exists) and node.expression is not None


def event_columns(node: exp.Expr) -> Iterator[tuple[str, exp.Column]]:
    """Each `event.<attribute>` in a query, with the attribute's name."""
    for column in node.find_all(exp.Column):
        if column.table.lower() != EVENT:
            continue
        if column.db or not isinstance(column.this, exp.Identifier):
            raise Unsupported("event.<attribute> must be one name", column)
        yield column.name, column


def own_subqueries(select: exp.Select) -> list[exp.Expr]:
    """The EXISTS, IN and scalar subqueries of this SELECT: those outside of FROM, JOIN and WITH."""
    nodes: list[exp.Expr] = []
    for node in own_nodes(select, exp.Exists, exp.In, exp.Subquery):
        if isinstance(node, exp.Exists):
            if not is_array_exists(node):
                nodes.append(node)
        elif isinstance(node, exp.In):
            if node.args.get("query") is not None:
                nodes.append(node)
        elif not isinstance(node.parent, exp.From | exp.Join | exp.Lateral | exp.In | exp.Exists):
            nodes.append(node)
    return nodes


# Checks


def check_nodes(select: exp.Select, unsupported: dict[type[exp.Expr], str]) -> None:
    """Raises `Unsupported` for nodes of the given types, with the message for the type."""
    unsupported_nodes = [
        node for node in own_nodes(select, *unsupported) if not is_array_exists(node)
    ]
    for node_type, message in unsupported.items():
        for node in unsupported_nodes:
            if isinstance(node, node_type):
                raise Unsupported(message, node)


def check_subqueries_in_from(select: exp.Select) -> None:
    """Raises `Unsupported` for subqueries outside of FROM and JOIN."""
    for node in own_nodes(select, exp.Subquery):
        if not isinstance(node.parent, exp.From | exp.Join):
            raise Unsupported("a subquery is supported in FROM only", node)


def check_table_alias(table: exp.Expr) -> None:
    """Raises `Unsupported` for a table or subquery with an alias that renames its columns."""
    if table.alias_column_names:
        raise Unsupported(
            "column names in a table alias are not supported; rename columns in a SELECT list",
            table,
        )


def check_in_lists(select: exp.Select, message: str) -> None:
    """Raises `Unsupported` with the message for IN (SELECT …)."""
    for node in own_nodes(select, exp.In):
        if node.args.get("query") is not None:
            raise Unsupported(message, node)


def check_supported(select: exp.Select) -> None:
    """Raises `Unsupported` for what no query about an event can have."""
    check_nodes(select, _UNSUPPORTED_NODES)
    for node in [*own_nodes(select, exp.ArgMin), *own_nodes(select, exp.ArgMax)]:
        if node.args.get("count") is not None:
            raise Unsupported(
                "min_by and max_by take two arguments here; "
                "for the first rows use ORDER BY and LIMIT",
                node,
            )


def check_determined(query: exp.Query) -> None:
    """Raises `Unsupported` for aggregates whose value depends on the order in which rows are read."""
    for node in query.find_all(*_UNDETERMINED):
        if not is_inside(node, (exp.Window,)):
            name = node.sql(dialect="spark").split("(")[0].lower()
            raise Unsupported(f"{name}: {_UNDETERMINED[type(node)]}", node)


def check_plain_groups(group: exp.Expr) -> None:
    """Raises `Unsplittable` for ROLLUP, CUBE and GROUPING SETS."""
    has_sets = any(
        isinstance(key, exp.Rollup | exp.Cube | exp.GroupingSets) for key in group.expressions
    )
    if has_sets or any(map(group.args.get, _GROUPING_SETS)):
        raise Unsplittable("ROLLUP, CUBE and GROUPING SETS need all rows of history", group)


# Aggregates


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a function is an aggregate."""
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in _UNPARSED_AGGREGATES
    return isinstance(node, exp.AggFunc)


def aggregates_of(select: exp.Select) -> Iterator[exp.Expr]:
    """The outermost aggregates of this SELECT, without window functions (OVER)."""
    for node in own_nodes(select, exp.Func):
        if is_aggregate(node) and not is_inside(node, (exp.Window, exp.AggFunc)):
            yield node


def normalize_aggregates(query: Node) -> Node:
    """Replace synonyms of aggregates by the names that the parser knows, in place.

    Outputs without an alias keep the name that they would have had. Of the most frequent values,
    `mode` is the least.
    """
    for clause in list(query.find_all(exp.WithinGroup)):
        ordered = _value_of_order(clause)
        if ordered is not None:
            clause.replace(ordered)
    for mode in query.find_all(exp.Mode):
        mode.set("deterministic", exp.true())
    for node in list(query.find_all(exp.Anonymous, exp.Any)):
        aggregate = _parsed_aggregate(node)
        if aggregate is None:
            continue
        if isinstance(node.parent, exp.Select) and node.arg_key == "expressions":
            aggregate = exp.alias_(aggregate, node.sql(dialect="spark"), quoted=True)
        node.replace(aggregate)
    return query


def _value_of_order(clause: exp.WithinGroup) -> exp.Expr | None:
    """An aggregate WITHIN GROUP (ORDER BY …) as one of the value that it is ordered by, if any."""
    keys = clause.expression.expressions
    if len(keys) != 1:
        return None
    value, is_descending = keys[0].this.copy(), bool(keys[0].args.get("desc"))
    if isinstance(clause.this, exp.Mode) and not is_descending:
        return exp.Mode(this=value)
    share = clause.this.this
    if not isinstance(clause.this, exp.PercentileCont) or not isinstance(share, exp.Literal):
        return None
    quantile: exp.Expr = share.copy()
    if is_descending:
        quantile = exp.Literal.number(repr(1 - float(share.name)))
    return exp.Quantile(this=value, quantile=quantile)


def _parsed_aggregate(node: exp.Expr) -> exp.Expr | None:
    """The aggregate that a function call means; None if it is not such a synonym."""
    if isinstance(node, exp.Any):
        if isinstance(node.parent, exp.Binary) and node.arg_key == "expression":
            return None  # a comparison: x = ANY (…)
        argument = node.this.unnest()
        if isinstance(argument, exp.Query):
            return None
        return exp.LogicalOr(this=argument.copy())
    aggregate_type = _AGGREGATE_ALIASES.get(node.name.lower())
    if aggregate_type is None or not node.expressions:
        return None
    if isinstance(node.expressions[0], exp.Query):
        return None
    return aggregate_type(this=node.expressions[0].copy())
