"""Queries of the values with the most rows: a list of the most frequent ones of each piece."""

from sqlglot import exp

from recall.query.split.model import LIST_LENGTH, Split, SplitAggregate
from recall.query.sql_names import EVENT, MERGED_TABLE
from recall.query.top_values import TOP_COUNTS

_VALUES = ("_v0", "_v1", "_v2")


def split_frequent(query: exp.Select, k: int) -> Split:
    """Take a query apart that `recall.query.top_values.expand_top` returned."""
    value, *counts = query.expressions
    probe = query.copy()
    for clause in ("order", "limit"):
        probe.args.pop(clause)
    group = exp.alias_(value.unalias().copy(), "_g0")
    probe_outputs = [group.copy()]
    for count, column in zip(counts, _VALUES, strict=True):
        probe_outputs.append(exp.alias_(count.unalias().copy(), column))
    probe.set("expressions", probe_outputs)
    event = exp.column("eid", table=EVENT)
    probe.set("group", exp.Group(expressions=[value.unalias().copy(), event]))
    partial = probe.copy()
    partial.set("expressions", [group, exp.alias_(counts[0].unalias().copy(), "_a0_0")])
    partial.set("order", query.args["order"].copy())
    partial.set("limit", exp.Limit(expression=exp.Literal.number(LIST_LENGTH)))
    merge = exp.select(exp.alias_(exp.column("_g0"), value.alias, quoted=True))
    for column, name in zip(_VALUES, TOP_COUNTS, strict=True):
        merge = merge.select(exp.alias_(exp.column(column), name))
    by_count = exp.Ordered(this=exp.column("_v0"), desc=True)
    by_value = exp.Ordered(this=exp.column("_g0"), nulls_first=True)
    merge = merge.from_(MERGED_TABLE).order_by(by_count, by_value)
    count = SplitAggregate("count", "_v0", ("_a0_0",), "count(*)", "bigint")
    return Split(partial, merge, probe, ("_g0",), (count,), top=k)
