"""Queries with GROUP BY, DISTINCT or aggregates: partial groups of each piece, and their merge."""

from collections.abc import Mapping

from sqlglot import exp

from recall.query.parsing import Unsplittable, Unsupported
from recall.query.parts import (
    aggregates_of,
    aliased_outputs,
    check_plain_groups,
    is_aggregate,
    own_nodes,
    resolve_output,
    sources_of,
)
from recall.query.split.aggregates import split_aggregate
from recall.query.split.model import Split, SplitAggregate
from recall.query.sql_names import EVENT, MERGED_TABLE


def split_groups(query: exp.Select, types: Mapping[str, str]) -> Split:
    """Take a query with groups or aggregates apart. Raises `Unsupported`.

    `types`: Spark's types of the merged values by column, as far as known.
    """
    _rewrite_distinct(query)
    return _GroupSplitter(query, types).split()


def _rewrite_distinct(query: exp.Select) -> None:
    """Rewrite SELECT DISTINCT without aggregates as GROUP BY all outputs."""
    if not query.args.get("distinct"):
        return
    if query.args["distinct"].args.get("on") is not None:
        raise Unsupported("DISTINCT ON is not supported; use GROUP BY with max_by", query)
    if query.args.get("group") or any(aggregates_of(query)):
        if query.args.get("order") or query.args.get("limit"):
            raise Unsplittable(
                "DISTINCT of aggregates with ORDER BY needs all rows of history", query
            )
        return
    if query.is_star:
        raise Unsplittable("SELECT DISTINCT * needs all rows of history; name the columns", query)
    query.set("distinct", None)
    keys = [output.unalias().copy() for output in query.expressions]
    query.set("group", exp.Group(expressions=keys))


class _GroupSplitter:
    """Takes one query apart."""

    def __init__(self, query: exp.Select, types: Mapping[str, str]) -> None:
        self._query = query
        self._types = types
        self._partial_outputs: list[exp.Expr] = []
        self._type_probe_outputs: list[exp.Expr] = []
        self._aggregates: list[SplitAggregate] = []
        # The merged column of each aggregate, by its text.
        self._columns_by_text: dict[str, exp.Column] = {}

    def split(self) -> Split:
        keys = _group_keys(self._query)
        group_columns = tuple(f"_g{number}" for number in range(len(keys)))
        merge = self._query.copy()
        _inline_aliases(merge)
        for aggregate in list(aggregates_of(merge)):
            self._replace_aggregate(aggregate)
        reads_one_table = len(sources_of(self._query)) == 1
        columns_by_key: dict[str, str] = {}
        for key, column in zip(keys, group_columns, strict=True):
            columns_by_key[_normalized_text(key, reads_one_table)] = column
        _replace_groups(merge, columns_by_key, reads_one_table)
        value_columns = {aggregate.value_column for aggregate in self._aggregates}
        _check_outputs(merge, value_columns.union(group_columns))
        return Split(
            partial=self._group_history(keys, group_columns, self._partial_outputs),
            merge=_read_merged_table(merge),
            type_probe=self._group_history(keys, group_columns, self._type_probe_outputs),
            groups=group_columns,
            aggregates=tuple(self._aggregates),
        )

    def _group_history(
        self, keys: list[exp.Expr], group_columns: tuple[str, ...], outputs: list[exp.Expr]
    ) -> exp.Select:
        """A query over history, grouped by the keys and the event."""
        select = self._query.copy()
        for clause in ("order", "having", "limit", "group", "distinct"):
            select.args.pop(clause, None)
        key_outputs: list[exp.Expr] = []
        for key, column in zip(keys, group_columns, strict=True):
            key_outputs.append(exp.alias_(key.copy(), column))
        select.set("expressions", [*key_outputs, *outputs])
        group_keys = [key.copy() for key in keys]
        group_keys.append(exp.column("eid", table=EVENT))
        select.set("group", exp.Group(expressions=group_keys))
        return select

    def _replace_aggregate(self, node: exp.Expr) -> None:
        """Replace an aggregate, with its FILTER, by the column of its merged values."""
        aggregate = node.parent if isinstance(node.parent, exp.Filter) else node
        text = aggregate.sql(dialect="spark")
        if text not in self._columns_by_text:
            self._add_aggregate(node, aggregate, text)
        column: exp.Expr = self._columns_by_text[text].copy()
        if isinstance(aggregate.parent, exp.Select):
            # An output without an alias is named after its text.
            column = exp.alias_(column, text, quoted=True)
        aggregate.replace(column)

    def _add_aggregate(self, node: exp.Expr, aggregate: exp.Expr, text: str) -> None:
        """`aggregate`: the node, or the FILTER around it."""
        number = len(self._aggregates)
        value_column = f"_v{number}"
        aggregate_parts = split_aggregate(node, self._types.get(value_column))
        condition: exp.Expr | None = None
        if aggregate is not node:
            condition = aggregate.expression
        part_columns = []
        for part_number, part in enumerate(aggregate_parts.parts):
            part_column = f"_a{number}_{part_number}"
            part_columns.append(part_column)
            filtered_part = _with_filter(part.copy(), condition)
            self._partial_outputs.append(exp.alias_(filtered_part, part_column))
        self._type_probe_outputs.append(exp.alias_(aggregate.copy(), value_column))
        self._aggregates.append(
            SplitAggregate(
                kind=aggregate_parts.kind,
                value_column=value_column,
                part_columns=tuple(part_columns),
                text=text,
                type=self._types.get(value_column),
                quantiles=aggregate_parts.quantiles,
                returns_array=aggregate_parts.returns_array,
                error_bound=aggregate_parts.error_bound,
            )
        )
        self._columns_by_text[text] = exp.column(value_column)


def _with_filter(part: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
    """Each aggregate in a part with a FILTER."""
    if condition is None:
        return part
    if is_aggregate(part):
        return exp.Filter(this=part, expression=condition.copy())
    for node in list(filter(is_aggregate, part.find_all(exp.Func))):
        node.replace(exp.Filter(this=node.copy(), expression=condition.copy()))
    return part


def _group_keys(query: exp.Select) -> list[exp.Expr]:
    """The expressions of GROUP BY."""
    group = query.args.get("group")
    if group is None:
        return []
    check_plain_groups(group)
    return [resolve_output(key, query.expressions) for key in group.expressions]


# The merge


def _read_merged_table(merge: exp.Select) -> exp.Select:
    """The query, whose groups and aggregates are columns by now, over the table `_merged`."""
    for clause in ("group", "where", "joins", "laterals", "with_"):
        merge.args.pop(clause, None)
    having = merge.args.pop("having", None)
    merge.set("from_", exp.From(this=exp.to_table(MERGED_TABLE)))
    if having is not None:
        merge.set("where", exp.Where(this=having.this))
    return merge


def _inline_aliases(merge: exp.Select) -> None:
    """Replace aliases in HAVING, and in expressions of ORDER BY, by what they stand for."""
    expressions_by_alias = aliased_outputs(merge.expressions)
    for clause in filter(None, map(merge.args.get, ("having", "order"))):
        for column in list(clause.find_all(exp.Column)):
            expression = expressions_by_alias.get(column.name.lower())
            if expression is None or column.table:
                continue
            is_whole_entry = isinstance(column.parent, exp.Ordered)
            if not is_whole_entry and not column.find_ancestor(exp.AggFunc):
                column.replace(exp.paren(expression.copy()))


def _normalized_text(node: exp.Expr, reads_one_table: bool) -> str:
    """A text that is equal for equal expressions.

    Case is ignored, and the name of the table if only one is read.
    """
    normalized = node.copy()
    for column in normalized.find_all(exp.Column):
        if reads_one_table and column.table.lower() != EVENT:
            column.set("table", None)
        column.this.set("quoted", False)
    text = normalized.sql(dialect="spark")
    for literal in normalized.find_all(exp.Literal):
        if literal.is_string:
            return text
    return text.lower()


def _replace_groups(
    merge: exp.Select, columns_by_key: Mapping[str, str], reads_one_table: bool
) -> None:
    """Replace the expressions that the query groups by with the columns of merged groups."""
    clauses = [*merge.expressions, *filter(None, map(merge.args.get, ("having", "order")))]
    for clause in clauses:
        for node in list(clause.walk()):
            if isinstance(node, exp.Alias | exp.Identifier | exp.Ordered):
                continue
            name = columns_by_key.get(_normalized_text(node, reads_one_table))
            if name is None:
                continue
            column: exp.Expr = exp.column(name)
            if isinstance(node.parent, exp.Select):
                output_name = node.alias_or_name or node.sql(dialect="spark")
                column = exp.alias_(column, output_name, quoted=True)
            node.replace(column)


def _check_outputs(merge: exp.Select, merged_columns: set[str]) -> None:
    """Raises `Unsupported` for outputs of other things than groups, aggregates and the event."""
    aliases = aliased_outputs(merge.expressions)
    for column in own_nodes(merge, exp.Column):
        if column.find_ancestor(exp.Group, exp.Where, exp.Join, exp.From, exp.Lateral):
            continue
        if column.table.lower() == EVENT or column.name in merged_columns:
            continue
        if column.find_ancestor(exp.Order) is not None and column.name.lower() in aliases:
            continue
        if _is_lambda_argument(column):
            continue
        raise Unsupported(
            f"{column.sql(dialect='spark')} is neither grouped by nor inside an aggregate", column
        )
    for star in own_nodes(merge, exp.Star):
        if isinstance(star.parent, exp.Select):
            raise Unsupported("* cannot be selected together with aggregates", star)


def _is_lambda_argument(column: exp.Column) -> bool:
    """Whether a name is an argument of the function x -> … around it."""
    function = column.find_ancestor(exp.Lambda)
    if function is None or column.table:
        return False
    return any(argument.name == column.name for argument in function.expressions)
