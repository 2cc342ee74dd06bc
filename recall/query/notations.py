"""Notations that stand for others, which are all that the rest of this package knows. No I/O.

They change trees in place.
"""

from collections.abc import Mapping

from sqlglot import exp

_PARTS = ("partition_by", "order", "spec")


def inline_windows(query: exp.Expr) -> exp.Window | None:
    """Replace the windows of WINDOW clauses by what defines them.

    Returns the first one that no clause of its SELECT defines; None: there is none.
    """
    for select in list(query.find_all(exp.Select)):
        named: dict[str, exp.Window] = {}
        clauses: list[exp.Window] = select.args.get("windows") or []
        for window in clauses:
            if window.alias and not _complete(window, named):
                return window
            named[window.name.lower()] = window
        select.set("windows", None)
        for window in list(select.find_all(exp.Window)):
            is_own = window.find_ancestor(exp.Select) is select
            if window.alias and is_own and not _complete(window, named):
                return window
    return None


def _complete(window: exp.Window, named: Mapping[str, exp.Window]) -> bool:
    """Add what the window that it names has and it has not; whether there is one of that name."""
    base = named.get(window.alias.lower())
    if base is None:
        return False
    for part in _PARTS:
        value = base.args.get(part)
        if not value or window.args.get(part):
            continue
        is_list = isinstance(value, list)
        window.set(part, [item.copy() for item in value] if is_list else value.copy())
    window.set("alias", None)
    return True


def replace_values(query: exp.Expr) -> None:
    """Replace VALUES in FROM and joins by a subquery of SELECTs without FROM."""
    for values in list(query.find_all(exp.Values)):
        if not isinstance(values.parent, exp.From | exp.Join):
            continue
        alias = values.args.get("alias")
        names = [column.name for column in (alias.columns if alias else ())]
        selects: list[exp.Query] = []
        for row in values.expressions:
            columns = row.expressions if isinstance(row, exp.Tuple) else [row]
            outputs = []
            for number, value in enumerate(columns):
                name = names[number] if number < len(names) else f"col{number + 1}"
                outputs.append(exp.alias_(value, name, quoted=True))
            selects.append(exp.select(*outputs))
        union = selects[0]
        for select in selects[1:]:
            union = exp.Union(this=union, expression=select, distinct=False)
        name = alias.name if alias else ""
        values.replace(union.subquery(name or "values", copy=False))
