"""Queries with GROUP BY, DISTINCT or aggregates: partial groups of each piece, outputs made of what is merged."""

from collections.abc import Iterable, Mapping

from sqlglot import exp

from recall.query.parts import EVENT, aggregates_of, check_plain_groups, is_aggregate, own_nodes
from recall.query.shape import Unsupported
from recall.query.split.aggregates import split_aggregate
from recall.query.split.model import MERGED_TABLE, Split, SplitAggregate


def split_groups(query: exp.Select, types: Mapping[str, str]) -> Split:
    """Take a query with groups or aggregates apart; `types` of the merged values, as far as known."""
    _rewrite_distinct(query)
    return _GroupSplitter(query, types).split()


def _rewrite_distinct(query: exp.Select) -> None:
    """SELECT DISTINCT without aggregates is GROUP BY all outputs."""
    if not query.args.get("distinct"):
        return
    if query.args["distinct"].args.get("on") is not None:
        raise Unsupported("DISTINCT ON is not supported; use GROUP BY with max_by", query)
    if query.args.get("group") or any(aggregates_of(query)):
        if query.args.get("order") or query.args.get("limit"):
            raise Unsupported(
                "DISTINCT beside aggregates takes no ORDER BY and LIMIT; leave DISTINCT out", query
            )
        return
    if any(isinstance(p, exp.Star) or p.is_star for p in query.expressions):
        raise Unsupported("SELECT DISTINCT names its columns in a recall, not *", query)
    query.set("distinct", None)
    query.set("group", exp.Group(expressions=[p.unalias().copy() for p in query.expressions]))


class _GroupSplitter:
    """One query. `_known`: merged columns by the text of the aggregates that they stand for."""

    def __init__(self, query: exp.Select, types: Mapping[str, str]) -> None:
        self._query = query
        self._types = types
        self._partial_outputs: list[exp.Expr] = []
        self._type_probe_outputs: list[exp.Expr] = []
        self._aggregates: list[SplitAggregate] = []
        self._columns_by_text: dict[str, exp.Column] = {}

    def split(self) -> Split:
        partial, merge = self._query.copy(), self._query.copy()
        keys = _group_keys(self._query)
        groups = tuple(f"_g{number}" for number in range(len(keys)))
        for part in ("order", "having", "limit", "group", "distinct"):
            partial.args.pop(part, None)
        _inline_aliases(merge)
        for aggregate in list(aggregates_of(merge)):
            self._replace_aggregate(aggregate)
        alone = len(_from_tables(self._query)) == 1
        _replace_groups(
            merge,
            {_normalized_text(key, alone): name for key, name in zip(keys, groups, strict=True)},
            alone,
        )
        _check_outputs(merge, {*groups, *(a.value_column for a in self._aggregates)})
        named = [exp.alias_(key.copy(), name) for key, name in zip(keys, groups, strict=True)]
        group = exp.Group(expressions=[*(k.copy() for k in keys), exp.column("eid", table=EVENT)])
        typing = partial.copy()
        partial.set("expressions", [*named, *self._partial_outputs])
        partial.set("group", group)
        typing.set("expressions", [*(one.copy() for one in named), *self._type_probe_outputs])
        typing.set("group", group.copy())
        for part in ("group", "where", "joins", "with_"):
            merge.args.pop(part, None)
        having = merge.args.pop("having", None)
        merge.set("from_", exp.From(this=exp.to_table(MERGED_TABLE)))
        if having is not None:
            merge.set("where", exp.Where(this=having.this))
        return Split(partial, merge, typing, groups, tuple(self._aggregates))

    def _replace_aggregate(self, node: exp.Expr) -> None:
        """Put a column of merged values in the place of an aggregate."""
        whole = node.parent if isinstance(node.parent, exp.Filter) else node
        text = whole.sql(dialect="spark")
        if text not in self._columns_by_text:
            number = len(self._aggregates)
            value = f"_v{number}"
            found = split_aggregate(node, self._types.get(value))
            made = [(f"_a{number}_{place}", part) for place, part in enumerate(found.parts)]
            condition = whole.expression if whole is not node else None
            for name, part in made:
                self._partial_outputs.append(exp.alias_(_with_filter(part.copy(), condition), name))
            self._type_probe_outputs.append(exp.alias_(whole.copy(), value))
            names = tuple(name for name, _ in made)
            self._aggregates.append(
                SplitAggregate(
                    found.kind,
                    value,
                    names,
                    text,
                    self._types.get(value),
                    found.quantiles,
                    found.returns_array,
                    found.error_bound,
                )
            )
            self._columns_by_text[text] = exp.column(value)
        column: exp.Expr = self._columns_by_text[text].copy()
        if isinstance(whole.parent, exp.Select):  # an output keeps the name that people know it by
            column = exp.alias_(column, text, quoted=True)
        whole.replace(column)


def _from_tables(query: exp.Select) -> list[exp.Expr]:
    return [query.args["from_"].this, *(join.this for join in query.args.get("joins") or ())]


def _with_filter(part: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
    """Each aggregate of a part with the FILTER that it had."""
    if condition is None:
        return part
    if is_aggregate(part):
        return exp.Filter(this=part, expression=condition.copy())
    for node in [n for n in part.find_all(exp.Func) if is_aggregate(n)]:
        node.replace(exp.Filter(this=node.copy(), expression=condition.copy()))
    return part


def _group_keys(query: exp.Select) -> list[exp.Expr]:
    """The expressions of GROUP BY; names of outputs and their numbers stand for these."""
    group = query.args.get("group")
    if group is None:
        return []
    check_plain_groups(group)
    made = {p.alias.lower(): p.this for p in query.expressions if isinstance(p, exp.Alias)}
    keys: list[exp.Expr] = []
    for key in group.expressions:
        if (
            isinstance(key, exp.Literal)
            and key.is_int
            and 0 < int(key.name) <= len(query.expressions)
        ):
            key = query.expressions[int(key.name) - 1].unalias()
        elif isinstance(key, exp.Column) and not key.table and key.name.lower() in made:
            key = made[key.name.lower()]
        keys.append(key)
    return keys


def _inline_aliases(merge: exp.Select) -> None:
    """Outputs named in HAVING, or inside an expression of ORDER BY, stand for what they are made of."""
    made = {p.alias.lower(): p.this for p in merge.expressions if isinstance(p, exp.Alias)}
    for part in ("having", "order"):
        for column in list(merge.args[part].find_all(exp.Column)) if merge.args.get(part) else ():
            bare = isinstance(column.parent, exp.Ordered)
            if (
                column.table
                or bare
                or column.name.lower() not in made
                or column.find_ancestor(exp.AggFunc)
            ):
                continue
            column.replace(exp.paren(made[column.name.lower()].copy()))


def _normalized_text(node: exp.Expr, alone: bool) -> str:
    """A text that is the same for what means the same: any case, and where one table is read, with its name or not."""
    plain = node.copy()
    for column in plain.find_all(exp.Column):
        if alone and column.table.lower() != EVENT:
            column.set("table", None)
        column.this.set("quoted", False)
    return (
        plain.sql(dialect="spark").lower()
        if not _has_string_literal(plain)
        else plain.sql(dialect="spark")
    )


def _has_string_literal(node: exp.Expr) -> bool:
    return any(literal.is_string for literal in node.find_all(exp.Literal))


def _replace_groups(merge: exp.Select, by_text: Mapping[str, str], alone: bool) -> None:
    """Put the columns of merged groups in the place of the expressions that they are grouped by."""
    ends: Iterable[exp.Expr] = (merge.args[p] for p in ("having", "order") if merge.args.get(p))
    for part in [*merge.expressions, *ends]:
        for node in list(part.walk()):
            if not isinstance(node, exp.Expr) or isinstance(
                node, exp.Alias | exp.Identifier | exp.Ordered
            ):
                continue
            name = by_text.get(_normalized_text(node, alone))
            if name is None:
                continue
            column: exp.Expr = exp.column(name)
            if isinstance(node.parent, exp.Select):
                column = exp.alias_(
                    column, node.alias_or_name or node.sql(dialect="spark"), quoted=True
                )
            node.replace(column)


def _check_outputs(merge: exp.Select, known: set[str]) -> None:
    """Outputs are made of groups, aggregates and the event alone."""
    names = {p.alias.lower() for p in merge.expressions if isinstance(p, exp.Alias)}
    for column in own_nodes(merge, exp.Column):
        if column.find_ancestor(exp.Group, exp.Where, exp.Join, exp.From):
            continue
        ordered = column.find_ancestor(exp.Order) is not None and column.name.lower() in names
        if (
            column.table.lower() == EVENT
            or column.name in known
            or ordered
            or _is_lambda_argument(column)
        ):
            continue
        raise Unsupported(
            f"{column.sql(dialect='spark')} is neither grouped by nor inside an aggregate", column
        )
    for star in own_nodes(merge, exp.Star):
        if isinstance(star.parent, exp.Select):
            raise Unsupported("* cannot stand beside aggregates", star)


def _is_lambda_argument(column: exp.Column) -> bool:
    """A name that x -> … gives to what it is called with."""
    inside = column.find_ancestor(exp.Lambda)
    return (
        inside is not None
        and not column.table
        and column.name in {one.name for one in inside.expressions}
    )
