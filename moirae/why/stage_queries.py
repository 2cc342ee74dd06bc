"""Statements that count the rows of a key through the stages of an event query. No I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from moirae.why.conditions import (
    EVENT_QUERY,
    conjuncts_of,
    find_operands,
    format_sql,
    list_selects,
)
from recall.query import sources_of

_WINDOW = "window"


@dataclass(frozen=True)
class StageCounts:
    """The statement of a stage: one row of counts.

    `rows`: those of the key after FROM and JOIN; `row_N`: of these, those for which conditions up to
    the Nth are true; `value_N`: JSON of what the Nth compares in the newest row, `is_true_N`: what it
    says there. Grouped: `groups`, and from the first condition of HAVING on, of groups.
    """

    name: str
    sources: Sequence[str]
    conditions: Sequence[str]
    operands: Sequence[Sequence[str]]
    where_count: int
    is_grouped: bool
    statement: str


def build_stage_queries(query: exp.Query, key: Mapping[str, str]) -> list[StageCounts]:
    """A statement for each SELECT of a bound query, in the order of their evaluation.

    `key`: texts of values by column of the result; where a stage has no such column, rows of other
    keys count, too.
    """
    common = query.args.get("with_")
    keys = _pass_keys(query, key)
    return [
        _build(stage.name, stage.select, keys.get(id(stage.select), {}), common)
        for stage in list_selects(query)
    ]


def build_key_condition(column: exp.Expr, text: str) -> exp.Expr:
    """A column has the value of this text."""
    as_text = exp.Cast(this=column.copy(), to=exp.DataType.build("string", dialect="spark"))
    return exp.EQ(this=as_text, expression=exp.Literal.string(text))


def _pass_keys(query: exp.Expr, key: Mapping[str, str]) -> dict[int, Mapping[str, str]]:
    """The values of columns of each SELECT, by its identity: from the outside in."""
    keys: dict[int, Mapping[str, str]] = {}
    pending: list[tuple[exp.Expr, Mapping[str, str]]] = [(query, key)]
    while pending:
        node, values = pending.pop()
        if isinstance(node, exp.SetOperation):
            pending += [(node.this, values), (node.expression, values)]
        elif isinstance(node, exp.Subquery):
            pending.append((node.this, values))
        elif isinstance(node, exp.Select):
            keys[id(node)] = values
            for source in sources_of(node):
                if isinstance(source, exp.Subquery):
                    pending.append((source, _select_values(node, source.alias, values)))
    return keys


def _select_values(select: exp.Select, alias: str, values: Mapping[str, str]) -> dict[str, str]:
    """The values that columns of a source must have."""
    passed: dict[str, str] = {}
    for name, text in values.items():
        output = _find_output(select, name)
        is_of_source = isinstance(output, exp.Column) and output.table.lower() in (
            "",
            alias.lower(),
        )
        if isinstance(output, exp.Column) and is_of_source:
            passed[output.name] = text
    return passed


def _find_output(select: exp.Select, name: str) -> exp.Expr | None:
    """What a SELECT computes a column from."""
    for output in select.expressions:
        if output.alias_or_name.lower() == name.lower():
            expression: exp.Expr = output.unalias()
            return expression
    if any(output.is_star for output in select.expressions):
        return exp.column(name)
    return None


def _build(
    name: str, select: exp.Select, key: Mapping[str, str], common: exp.Expr | None
) -> StageCounts:
    where = conjuncts_of(select, "where")
    having = conjuncts_of(select, "having")
    is_grouped = select.args.get("group") is not None
    rows = _select_rows(select, key)
    ts = _find_output(select, "ts")
    if is_grouped:
        # Rows have no ts of their own before they are grouped.
        counts = _count(where, None, first=0)
        groups = _select_groups(select, key, having)
        statement = f"SELECT * FROM ({_render(rows, counts, common)}) CROSS JOIN ({groups})"
    else:
        statement = _render(rows, _count(where, ts, first=0), common)
    conditions = [*where, *having]
    return StageCounts(
        name=name,
        sources=[_describe_source(source) for source in sources_of(select)],
        conditions=list(map(format_sql, conditions)),
        operands=[list(map(format_sql, find_operands(node))) for node in conditions],
        where_count=len(where),
        is_grouped=is_grouped,
        statement=statement,
    )


def _select_rows(select: exp.Select, key: Mapping[str, str]) -> exp.Select:
    """The rows of a key after FROM and JOIN, with the conditions on versions of relations."""
    rows = exp.Select(
        from_=select.args["from_"].copy(),
        joins=[join.copy() for join in select.args.get("joins") or []],
    )
    if select.args.get("where") is not None:
        unconditional = select.copy()
        for node in conjuncts_of(unconditional, "where"):
            node.replace(exp.true())
        rows.where(unconditional.args["where"].this, copy=False)
    for predicate in _key_conditions(select, key):
        rows.where(predicate, copy=False)
    return rows


def _key_conditions(select: exp.Select, key: Mapping[str, str]) -> list[exp.Expr]:
    """Those that hold for rows before they are grouped."""
    conditions: list[exp.Expr] = []
    for name, text in key.items():
        output = _find_output(select, name)
        if output is None or next(output.find_all(exp.AggFunc, exp.Anonymous), None) is not None:
            continue
        if any(
            column.name.lower() == _WINDOW or column.table.lower() == _WINDOW
            for column in output.find_all(exp.Column)
        ):
            continue
        conditions.append(build_key_condition(output, text))
    return conditions


def _count(conditions: Sequence[exp.Expr], ts: exp.Expr | None, first: int) -> list[str]:
    """Counts and newest values of conditions that hold one after the other.

    `ts`: by which rows are newest; None: the values are those of any row.
    """
    columns: list[str] = []
    so_far: list[str] = []
    for number, condition in enumerate(conditions, first):
        text = condition.sql(dialect="spark")
        so_far.append(f"({text})")
        columns.append(f"count_if({' AND '.join(so_far)}) AS row_{number}")
        pairs = [
            f"'{number}', {operand.sql(dialect='spark')}"
            for number, operand in enumerate(find_operands(condition))
        ]
        value = f"to_json(named_struct({', '.join(pairs)}))" if pairs else "NULL"
        columns.append(f"{_newest(value, ts)} AS value_{number}")
        columns.append(f"{_newest(f'({text})', ts)} AS is_true_{number}")
    return columns


def _newest(value: str, ts: exp.Expr | None) -> str:
    if ts is None:
        return f"any_value({value})"
    return f"max_by({value}, {ts.sql(dialect='spark')})"


def _render(rows: exp.Select, columns: Sequence[str], common: exp.Expr | None) -> str:
    prefix = "" if common is None else f"{common.sql(dialect='spark')} "
    marked = rows.select(exp.column("_columns_"), copy=False).sql(dialect="spark")
    return prefix + marked.replace("_columns_", ", ".join(["count(*) AS rows", *columns]), 1)


def _select_groups(select: exp.Select, key: Mapping[str, str], having: Sequence[exp.Expr]) -> str:
    """Counts of the groups of a key: `groups`, and the conditions of HAVING."""
    groups = select.copy()
    groups.set("having", None)
    for predicate in _key_conditions(select, key):
        groups.where(predicate, copy=False)
    ts = _find_output(select, "ts")
    names: list[str] = []
    for number, condition in enumerate(having):
        groups.select(exp.alias_(condition.copy(), f"_is_{number}"), copy=False)
        for position, operand in enumerate(find_operands(condition)):
            groups.select(exp.alias_(operand.copy(), f"_v_{number}_{position}"), copy=False)
            names.append(f"_v_{number}_{position}")
    if ts is not None:
        groups.select(exp.alias_(ts.copy(), "_ts"), copy=False)
    first = len(conjuncts_of(select, "where"))
    columns = ["count(*) AS groups"]
    order = exp.column("_ts") if ts is not None else None
    for number, condition in enumerate(having):
        passed = " AND ".join(f"_is_{position}" for position in range(number + 1))
        columns.append(f"count_if({passed}) AS row_{first + number}")
        pairs = [
            f"'{position}', _v_{number}_{position}"
            for position in range(len(find_operands(condition)))
        ]
        value = f"to_json(named_struct({', '.join(pairs)}))" if pairs else "NULL"
        columns.append(f"{_newest(value, order)} AS value_{first + number}")
        columns.append(f"{_newest(f'_is_{number}', order)} AS is_true_{first + number}")
    return f"SELECT {', '.join(columns)} FROM ({groups.sql(dialect='spark')})"


def _describe_source(source: exp.Expr) -> str:
    if isinstance(source, exp.Subquery):
        return source.alias_or_name or EVENT_QUERY
    for prefix in ("in_", "relation_"):
        if source.name.startswith(prefix):
            return source.name.removeprefix(prefix)
    return source.name
