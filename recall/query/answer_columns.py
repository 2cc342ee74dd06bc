"""Columns that each answer has besides its own: what it was computed from, and estimates.

A query may name them; `*` does not include them, and a column of the answer hides one of its name.
No I/O.
"""

from collections.abc import Collection, Iterable, Mapping

from sqlglot import exp

from recall.query.parts import aliased_outputs, own_nodes, visible_sources_of

COVERAGE_TYPES = {
    "coverage": "double",
    "covered_from": "timestamp",
    "covered_to": "timestamp",
    "final": "boolean",
}
ESTIMATE_SUFFIXES = {"_estimate": "value", "_low": "low", "_high": "high"}
"""By the end of a column's name, the field of the estimate that it holds."""


def coverage_columns(own: Collection[str], estimated: Iterable[str]) -> dict[str, str]:
    """The columns of an answer besides its own, with their types.

    `estimated`: those of its own columns that have estimates.
    """
    columns = dict(COVERAGE_TYPES)
    for name in estimated:
        columns |= {f"{name}{suffix}": "double" for suffix in ESTIMATE_SUFFIXES}
    hidden = {name.lower() for name in own}
    return {name: kind for name, kind in columns.items() if name.lower() not in hidden}


def named_columns(
    query: exp.Expr, columns_by_table: Mapping[str, Mapping[str, str]]
) -> dict[str, dict[str, str]]:
    """Those of some columns that a query names, by table, tables without any left out.

    A column without the name of its table is looked for in the only table of its SELECT.
    """
    tables = {name.lower(): name for name in columns_by_table}
    for cte in query.find_all(exp.CTE):
        tables.pop(cte.alias.lower(), None)
    named: dict[str, dict[str, str]] = {}
    for select in query.find_all(exp.Select):
        sources = visible_sources_of(select)
        aliases = {}
        for source in sources:
            if isinstance(source, exp.Table) and source.name.lower() in tables:
                aliases[source.alias_or_name.lower()] = tables[source.name.lower()]
        if len(sources) == 1 and len(aliases) == 1:
            aliases[""] = next(iter(aliases.values()))
        outputs = aliased_outputs(select.expressions)
        for column in own_nodes(select, exp.Column):
            table = aliases.get(column.table.lower())
            if table is None or (not column.table and _is_output(column, outputs)):
                continue
            for name, kind in columns_by_table[table].items():
                if name.lower() == column.name.lower():
                    named.setdefault(table, {})[name] = kind
    return named


def _is_output(column: exp.Column, outputs: Mapping[str, exp.Expr]) -> bool:
    """Whether a column without table stands for an output of its SELECT, by that one's alias."""
    output = outputs.get(column.name.lower())
    return output is not None and output is not column and column not in output.find_all(exp.Column)
