"""Which columns identify a row of an answer from one revision to the next. No I/O."""

from sqlglot import exp

from recall.query.parsing import parse
from recall.query.parts import aggregates_of, normalize_aggregates, resolve_output
from recall.query.top_values import expand_top


def row_key_columns(sql: str) -> tuple[str, ...] | None:
    """The outputs that hold the GROUP BY values of a query; none for an aggregate without groups.

    None: whole rows identify themselves, since there are no groups, or some are not selected.
    """
    query = normalize_aggregates(expand_top(parse(sql)))
    if not isinstance(query, exp.Select) or query.args.get("distinct"):
        return None
    group = query.args.get("group")
    if group is None:
        return () if any(aggregates_of(query)) else None
    names_by_text: dict[str, str] = {}
    for output in query.expressions:
        names_by_text[_normalized_text(output.unalias())] = output.alias_or_name
    columns = []
    for entry in group.expressions:
        key = resolve_output(entry, query.expressions)
        name = names_by_text.get(_normalized_text(key))
        if not name:
            return None
        columns.append(name)
    return tuple(dict.fromkeys(columns))


def _normalized_text(node: exp.Expr) -> str:
    """A text that is equal for equal expressions, whatever the case of their names."""
    normalized = node.copy()
    for identifier in normalized.find_all(exp.Identifier):
        identifier.set("this", identifier.name.lower())
        identifier.set("quoted", False)
    return normalized.sql(dialect="spark")
