"""Which output columns tell the rows of a query apart. No I/O."""

from collections.abc import Mapping

from sqlglot import exp

from recall.query.parsing import read_query
from recall.query.parts import common_tables, joins_of
from recall.query.windows import grouping_windows

_WINDOW_TIMES = frozenset({"window.start", "window.end"})


def unique_columns(
    sql: str, keys: Mapping[str, frozenset[str]], derived: Mapping[str, str]
) -> frozenset[str] | None:
    """Columns in which no two rows of a query are equal, in lower case; None: not known.

    `keys`: such columns of streams, by name in lower case; `derived`: the SQL of derived streams.
    """
    return _unique_columns(read_query(sql), keys, derived)


def _unique_columns(
    query: exp.Expr, keys: Mapping[str, frozenset[str]], derived: Mapping[str, str]
) -> frozenset[str] | None:
    if isinstance(query, exp.Subquery):
        return _unique_columns(query.this, keys, derived)
    if not isinstance(query, exp.Select) or common_tables(query) or joins_of(query):
        return None
    source = query.args["from_"].this
    group = query.args.get("group")
    if group is not None:
        return _select_group(query, group)
    if isinstance(source, exp.Subquery):
        return _select(query, _unique_columns(source, keys, derived))
    name = source.name.lower()
    if name in keys:
        return _select(query, keys[name])
    if name not in derived:
        return None
    remaining = {other: sql for other, sql in derived.items() if other != name}
    return _select(query, unique_columns(derived[name], keys, remaining))


def _select(select: exp.Select, key: frozenset[str] | None) -> frozenset[str] | None:
    """The outputs that are the columns of a key; None: not all of them are selected."""
    if key is None or select.is_star:
        return key
    outputs = _outputs_by_text(select)
    if not key <= outputs.keys():
        return None
    return frozenset(outputs[name] for name in key)


def _select_group(select: exp.Select, group: exp.Expr) -> frozenset[str] | None:
    """The outputs that are the grouping columns and the window of a SELECT, if all are selected."""
    outputs = _outputs_by_text(select)
    windows = grouping_windows(select)
    key: set[str] = set()
    for entry in group.expressions:
        if entry in windows:
            times = _WINDOW_TIMES & outputs.keys()
            if not times:
                return None
            key.add(outputs[min(times)])
        elif not isinstance(entry, exp.Column) or entry.name.lower() not in outputs:
            return None
        else:
            key.add(outputs[entry.name.lower()])
    return frozenset(key) or None


def _outputs_by_text(select: exp.Select) -> dict[str, str]:
    """The names of the outputs that are columns, by the column; parts of a window with it."""
    outputs: dict[str, str] = {}
    for output in select.expressions:
        value = output.unalias()
        if isinstance(value, exp.Column):
            qualifier = "window." if value.table.lower() == "window" else ""
            outputs[qualifier + value.name.lower()] = output.alias_or_name.lower()
    return outputs
