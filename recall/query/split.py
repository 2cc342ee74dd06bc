"""A question to the past in two parts: a partial answer for each piece of history, and how these merge.

Aggregates are taken apart (an average into a sum and a count, a variance into count, mean and sum of squared
differences), computed over each piece, and merged; outputs, HAVING, ORDER BY and LIMIT are evaluated over what is
merged. Both parts are again queries about an event. Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sqlglot import exp

from recall.query.lift import EVENT, aggregates_of, own, plain_groups, refuse_parts
from recall.query.shape import Tables, Unsupported, parse

Kind = Literal["count", "sum", "avg", "min", "max", "var_pop", "var_samp", "stddev_pop", "stddev_samp"]

# The table that `merge` reads.
MERGED = "_merged"
VARIANCES = ("var_pop", "var_samp", "stddev_pop", "stddev_samp")


@dataclass(frozen=True)
class Aggregate:
    """One aggregate: `value` names its column among what is merged, `parts` those of the partial answers."""

    kind: Kind
    value: str
    parts: tuple[str, ...]


@dataclass(frozen=True)
class Split:
    """A query about an event, taken apart.

    `partial` runs on a piece of history, `merge` on the table `_merged`: `groups` and the values of `aggregates`, or,
    where there are no aggregates (`limit` rows are asked for), the rows of the partial answers.
    """

    partial: exp.Select
    merge: exp.Select
    groups: tuple[str, ...] = ()
    aggregates: tuple[Aggregate, ...] = ()
    limit: int | None = None

    @property
    def plain(self) -> dict[str, str] | None:
        """Where each output is just a merged column, in any order of rows: that column by output. Else None."""
        parts = {part for part, value in self.merge.args.items() if value}
        if not self.aggregates or parts - {"expressions", "from_"}:
            return None
        outputs = {p.alias_or_name: p.unalias() for p in self.merge.expressions}
        columns = {n: p.name for n, p in outputs.items() if isinstance(p, exp.Column) and not p.table}
        return columns if len(columns) == len(self.merge.expressions) else None

    @property
    def whole(self) -> bool:
        """One row whatever history holds: aggregates without GROUP BY."""
        return bool(self.aggregates) and not self.groups


def split(sql: str, tables: Tables) -> Split:
    """Take a query apart. Raises `Unsupported`, saying why, for what cannot be computed piece by piece (yet)."""
    query = parse(sql)
    if not isinstance(query, exp.Select) or query.args.get("with_"):
        raise Unsupported("a recall is one SELECT, without WITH and UNION", query)
    refuse_parts(query)
    _one_history(query, tables)
    if own(query, exp.Window):
        raise Unsupported(
            "window functions (OVER) need all of history at once; use GROUP BY", own(query, exp.Window)[0]
        )
    if query.args.get("distinct"):
        raise Unsupported("SELECT DISTINCT is not supported in a recall; use GROUP BY", query)
    if query.args.get("group") or any(aggregates_of(query)):
        return _Aggregated(query).split()
    return _rows(query, tables)


def _one_history(query: exp.Select, tables: Tables) -> None:
    """History is read piece by piece, so that only one table of it can be there."""
    from_ = query.args.get("from_")
    if from_ is None:
        raise Unsupported("a recall reads a stream; this reads none", query)
    places = [from_.this, *(join.this for join in query.args.get("joins") or ())]
    for place in places:
        if not isinstance(place, exp.Table):
            raise Unsupported("FROM takes tables only in a recall, not subqueries", place)
    history = [p for p in places if p.name.lower() in tables.streams or p.name.lower() in tables.derived]
    if not history:
        raise Unsupported("a recall reads a stream; this reads none", query)
    if len(history) > 1:
        raise Unsupported("a recall reads one stream; a join of two cannot be split into pieces of time", history[1])
    for join in query.args.get("joins") or ():
        if join.side and history[0] is join.this:
            raise Unsupported(f"{join.side} JOIN of the stream cannot be split; begin with FROM {join.this.name}", join)


class _Aggregated:
    """A query with GROUP BY or aggregates."""

    def __init__(self, query: exp.Select) -> None:
        self._query = query
        self._partial: list[exp.Expr] = []
        self._aggregates: list[Aggregate] = []
        self._known: dict[str, exp.Column] = {}

    def split(self) -> Split:
        partial, merge = self._query.copy(), self._query.copy()
        keys = _keys(self._query)
        groups = tuple(f"_g{number}" for number in range(len(keys)))
        for part in ("order", "having", "limit", "group"):
            partial.args.pop(part, None)
        for aggregate in list(aggregates_of(merge)):
            self._take(aggregate)
        by_text = {key.sql(dialect="spark"): name for key, name in zip(keys, groups, strict=True)}
        _name_groups(merge, by_text)
        _only_merged(merge, {*groups, *(a.value for a in self._aggregates)})
        named = [exp.alias_(key.copy(), name) for key, name in zip(keys, groups, strict=True)]
        partial.set("expressions", [*named, *self._partial])
        partial.set("group", exp.Group(expressions=[*(k.copy() for k in keys), exp.column("eid", table=EVENT)]))
        merge.args.pop("group", None)
        merge.args.pop("where", None)
        merge.args.pop("joins", None)
        having = merge.args.pop("having", None)
        merge.set("from_", exp.From(this=exp.to_table(MERGED)))
        if having is not None:
            merge.set("where", exp.Where(this=having.this))
        return Split(partial, merge, groups, tuple(self._aggregates))

    def _take(self, node: exp.Expr) -> None:
        """Put a column of merged values in the place of an aggregate."""
        whole = node.parent if isinstance(node.parent, exp.Filter) else node
        text = whole.sql(dialect="spark")
        if text not in self._known:
            kind = _kind(node)
            number = len(self._aggregates)
            made = [(f"_a{number}_{place}", part) for place, part in enumerate(_parts(kind, node))]
            condition = whole.expression if whole is not node else None
            for name, part in made:
                self._partial.append(exp.alias_(_filtered(part, condition), name))
            self._aggregates.append(Aggregate(kind, f"_v{number}", tuple(name for name, _ in made)))
            self._known[text] = exp.column(f"_v{number}")
        column: exp.Expr = self._known[text].copy()
        if isinstance(whole.parent, exp.Select):  # an output keeps the name that people know it by
            column = exp.alias_(column, text, quoted=True)
        whole.replace(column)


def _kind(node: exp.Expr) -> Kind:
    name = node.sql_name().lower() if isinstance(node, exp.Func) else node.key
    kinds: dict[type[exp.Expr], Kind] = {
        exp.Count: "count",
        exp.Sum: "sum",
        exp.Avg: "avg",
        exp.Min: "min",
        exp.Max: "max",
        exp.VariancePop: "var_pop",
        exp.Variance: "var_samp",
        exp.StddevPop: "stddev_pop",
        exp.Stddev: "stddev_samp",
        exp.StddevSamp: "stddev_samp",
    }
    kind = kinds.get(type(node))
    if kind is None:
        known = "count, sum, avg, min, max, stddev, variance"
        raise Unsupported(f"{name} cannot be split into pieces of history yet; there are {known}", node)
    if isinstance(node.this, exp.Distinct):
        raise Unsupported(f"{name}(DISTINCT …) cannot be split into pieces of history yet", node)
    return kind


def _parts(kind: Kind, node: exp.Expr) -> list[exp.Expr]:
    """What is computed of an aggregate over each piece."""
    if kind in ("count", "sum", "min", "max"):
        return [node.copy()]
    value, count = node.this, exp.Count(this=node.this.copy())
    if kind == "avg":
        return [exp.Sum(this=exp.cast(value.copy(), "double")), count]
    number = exp.cast(value.copy(), "double")
    spread = exp.Mul(this=exp.VariancePop(this=number.copy()), expression=count.copy())
    return [count, exp.Avg(this=number), spread]


def _filtered(part: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
    if condition is None:
        return part
    for node in [part, *part.find_all(exp.AggFunc)]:
        if isinstance(node, exp.AggFunc):
            filtered = exp.Filter(this=node.copy(), expression=condition.copy())
            if node is part:
                return filtered
            node.replace(filtered)
    return part


def _keys(query: exp.Select) -> list[exp.Expr]:
    """The expressions of GROUP BY; names of outputs and their numbers stand for these."""
    group = query.args.get("group")
    if group is None:
        return []
    plain_groups(group)
    made = {p.alias.lower(): p.this for p in query.expressions if isinstance(p, exp.Alias)}
    keys: list[exp.Expr] = []
    for key in group.expressions:
        if isinstance(key, exp.Literal) and key.is_int and 0 < int(key.name) <= len(query.expressions):
            key = query.expressions[int(key.name) - 1].unalias()
        elif isinstance(key, exp.Column) and not key.table and key.name.lower() in made:
            key = made[key.name.lower()]
        keys.append(key)
    return keys


def _name_groups(merge: exp.Select, by_text: dict[str, str]) -> None:
    """Put the columns of merged groups in the place of the expressions that they are grouped by."""
    for part in [*merge.expressions, *(merge.args[p] for p in ("having", "order") if merge.args.get(p))]:
        for node in list(part.walk()):
            name = by_text.get(node.sql(dialect="spark")) if isinstance(node, exp.Expr) else None
            if name is None or isinstance(node, exp.Alias):
                continue
            column: exp.Expr = exp.column(name)
            if isinstance(node.parent, exp.Select):
                column = exp.alias_(column, node.alias_or_name or node.sql(dialect="spark"), quoted=True)
            node.replace(column)


def _only_merged(merge: exp.Select, known: set[str]) -> None:
    """Outputs are made of groups, aggregates and the event alone."""
    names = {p.alias.lower() for p in merge.expressions if isinstance(p, exp.Alias)}
    for column in own(merge, exp.Column):
        if column.find_ancestor(exp.Group, exp.Where, exp.Join, exp.From):
            continue
        ordered = column.find_ancestor(exp.Order) is not None and column.name.lower() in names
        if column.table.lower() != EVENT and column.name not in known and not ordered:
            raise Unsupported(f"{column.sql(dialect='spark')} is neither grouped by nor inside an aggregate", column)
    for star in own(merge, exp.Star):
        if isinstance(star.parent, exp.Select):
            raise Unsupported("* cannot stand beside aggregates", star)


def _rows(query: exp.Select, tables: Tables) -> Split:
    """Plain rows: the first of each piece, then the first of these."""
    limit = query.args.get("limit")
    if limit is None or not isinstance(limit.expression, exp.Literal) or not limit.expression.is_int:
        raise Unsupported("a recall of plain rows needs a LIMIT", query)
    if any(isinstance(p, exp.Star) or p.is_star for p in query.expressions):
        raise Unsupported("a recall of plain rows names its columns, not *", query)
    places = [query.args["from_"].this, *(join.this for join in query.args.get("joins") or ())]
    (history,) = [p for p in places if p.name.lower() in tables.streams or p.name.lower() in tables.derived]
    time = exp.column(tables.streams.get(history.name.lower(), "ts"), table=history.alias_or_name, quoted=True)
    order = query.args.get("order")
    entries: Sequence[exp.Expr] = order.expressions if order else [exp.Ordered(this=time, desc=True)]
    partial, merge = query.copy(), exp.Select()
    outputs = [exp.alias_(p.unalias().copy(), p.alias_or_name or f"_c{i}") for i, p in enumerate(query.expressions)]
    made = {p.alias.lower(): p.this for p in outputs}
    keys, merged_order = [], []
    for number, entry in enumerate(entries):
        value = entry.this
        if isinstance(value, exp.Literal) and value.is_int and 0 < int(value.name) <= len(outputs):
            value = outputs[int(value.name) - 1].this
        elif isinstance(value, exp.Column) and not value.table:
            value = made.get(value.name.lower(), value)
        keys.append(exp.alias_(value.copy(), f"_o{number}"))
        how = {"desc": entry.args.get("desc"), "nulls_first": entry.args.get("nulls_first")}
        merged_order.append(exp.Ordered(this=exp.column(f"_o{number}"), **how))
    partial.set("expressions", [*outputs, *keys])
    partial.set("order", exp.Order(expressions=[o.copy() for o in _over_keys(entries, keys)]))
    merge = merge.select(*(exp.column(p.alias, quoted=True) for p in outputs)).from_(MERGED)
    merge.set("order", exp.Order(expressions=merged_order))
    merge.set("limit", limit.copy())
    return Split(partial, merge, limit=int(limit.expression.name))


def _over_keys(entries: Sequence[exp.Expr], keys: Sequence[exp.Expr]) -> list[exp.Expr]:
    ordered: list[exp.Expr] = []
    for entry, key in zip(entries, keys, strict=True):
        how = {"desc": entry.args.get("desc"), "nulls_first": entry.args.get("nulls_first")}
        ordered.append(exp.Ordered(this=key.this.copy(), **how))
    return ordered
