"""`SELECT top(column, k) FROM …`: the k values with the most rows. No I/O.

It stands for a query with groups, whose answer over all of history is the same; what its counts are
while they are bounds, see `recall.operators.frequent`.
"""

from sqlglot import exp

from recall.query.parsing import Unsupported

TOP_COUNTS = ("at_least", "at_most", "certain")
"""The outputs behind the value: bounds of its number of rows, and whether it is among the first k."""

MAX_TOP = 100
"""The largest k."""

_FUNCTION = "top"
_OTHER_CLAUSES = ("group", "having", "order", "limit", "offset", "distinct")


def find_top(query: exp.Expr) -> int | None:
    """The k of a query of the form above; None: it has another form. Raises `Unsupported`."""
    calls = [node for node in query.find_all(exp.Anonymous) if node.name.lower() == _FUNCTION]
    if not calls:
        return None
    call = calls[0]
    is_alone = isinstance(query, exp.Select) and [
        output.unalias() for output in query.expressions
    ] == [call]
    if not is_alone or any(map(query.args.get, _OTHER_CLAUSES)):
        raise Unsupported(
            "write SELECT top(column, k) FROM … WHERE …, without other outputs and clauses", call
        )
    if len(call.expressions) != 2:
        raise Unsupported("top takes a column and a number: top(column, k)", call)
    k = call.expressions[1]
    if not isinstance(k, exp.Literal) or not k.is_int or not 1 <= int(k.name) <= MAX_TOP:
        raise Unsupported(f"the number of values of top must be between 1 and {MAX_TOP}", k)
    return int(k.name)


def expand_top(query: exp.Query) -> exp.Query:
    """The query with groups that `top` stands for; any other query as it is. Raises `Unsupported`."""
    k = find_top(query)
    if k is None:
        return query
    (output,) = query.expressions
    value = output.unalias().expressions[0]
    name = output.alias or value.alias_or_name
    if not name:
        raise Unsupported("name the values: top(expression, k) AS name", output)
    counts: list[exp.Expr] = [
        exp.Count(this=exp.Star()),
        exp.Count(this=exp.Star()),
        exp.LogicalAnd(this=exp.true()),
    ]
    outputs = [exp.alias_(value.copy(), name, quoted=True)]
    for count, count_name in zip(counts, TOP_COUNTS, strict=True):
        outputs.append(exp.alias_(count, count_name))
    expanded = query.copy()
    expanded.set("expressions", outputs)
    expanded.set("group", exp.Group(expressions=[value.copy()]))
    by_count = exp.Ordered(this=exp.Count(this=exp.Star()), desc=True)
    by_value = exp.Ordered(this=value.copy(), nulls_first=True)
    expanded.set("order", exp.Order(expressions=[by_count, by_value]))
    expanded.set("limit", exp.Limit(expression=exp.Literal.number(k)))
    return expanded
