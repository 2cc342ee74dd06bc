"""Filters over one stream, compiled once: their condition and outputs. No I/O."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

from sqlglot import exp

from moirae.evaluation.index.anchors import Necessary
from moirae.evaluation.index.conditions import ConditionCompiler
from moirae.evaluation.index.reductions import find_necessary
from moirae.evaluation.index.values import Row, RowLayout, RowTest, Value
from recall.errors import SparkRequired
from recall.query import clauses_of, excludes_only_extra, sql_names
from recall.query.plain import PLAIN_TYPES, select_columns

_CLAUSES = {"expressions", "from_", "where"}


class RuleOutput(NamedTuple):
    """An attribute of an event.

    `is_column`: it is read from the table, else computed from a row by the layout.
    """

    name: str
    value: Value
    is_column: bool


@dataclass(frozen=True)
class CompiledRule:
    """A filter over one table, or a query that is reduced to some of its rows.

    `necessary`: what a row must have for the condition to hold. `time_column`: of the event; None
    if the rows for which the condition holds are evaluated by another engine.
    """

    table: str
    holds: RowTest
    necessary: Necessary
    time_column: str | None
    outputs: tuple[RuleOutput, ...]

    @property
    def is_exact(self) -> bool:
        """Whether the condition decides alone."""
        return self.time_column is not None


class RuleCompiler:
    """Compiles the event queries of rules over tables with typed columns."""

    def __init__(self, tables: Mapping[str, Mapping[str, str]]) -> None:
        """`tables`: the types of columns, by table."""
        self.layouts: dict[str, RowLayout] = {}
        self.add_tables(tables)

    def add_tables(self, tables: Mapping[str, Mapping[str, str]]) -> None:
        """Add tables."""
        for name, types in tables.items():
            self.layouts[name] = RowLayout(select_columns(types, PLAIN_TYPES))

    def compile_rule(
        self, query: exp.Query, output_types: Mapping[str, str]
    ) -> CompiledRule | None:
        """A rule, or the rows that it needs; None: all, as far as is known.

        `output_types`: of the attributes, as Spark determined them.
        """
        try:
            return self.compile_filter(query, output_types)
        except SparkRequired:
            needs = find_necessary(query, self.layouts)
        if needs is None:
            return None
        table, necessary = needs
        return CompiledRule(table, lambda row: True, necessary, None, ())

    def compile_filter(self, query: exp.Query, output_types: Mapping[str, str]) -> CompiledRule:
        """As `compile_rule`, for a filter over one stream. Raises `SparkRequired`."""
        if not isinstance(query, exp.Select) or clauses_of(query) - _CLAUSES:
            raise SparkRequired("more than a filter over one stream")
        table = query.args["from_"].this
        is_table = isinstance(table, exp.Table) and table.name in self.layouts
        if not is_table or clauses_of(table) - {"this", "alias"} or table.alias_column_names:
            raise SparkRequired("more than a filter over one stream")
        layout = self.layouts[table.name]
        compiler = ConditionCompiler(layout, table.alias_or_name)
        outputs = {output.name.lower(): output for output in _outputs_of(query, compiler, layout)}
        if len(outputs) != len(output_types) + 1:
            raise SparkRequired("output column without a unique name")
        time = outputs.get("ts")
        if time is None or time.value.type != "timestamp" or time.value.column is None:
            raise SparkRequired("ts that is not a column")
        where = query.args.get("where")
        if where is None:
            raise SparkRequired("no condition")
        condition = compiler.compile_condition(where.this)
        computed = [output.value.get for output in outputs.values() if not output.is_column]
        return CompiledRule(
            table.name,
            _decide_outputs(condition.is_true, computed) if computed else condition.is_true,
            condition.if_true,
            time.value.column,
            tuple(_check_output(name, outputs, output_types) for name in output_types),
        )


def _decide_outputs(is_true: RowTest, outputs: Sequence[Callable[[Row], Any]]) -> RowTest:
    """A condition that raises `Undecided` if an output does for a row for which it holds."""

    def holds(row: Row) -> bool:
        if not is_true(row):
            return False
        for get in outputs:
            get(row)
        return True

    return holds


def _outputs_of(
    query: exp.Select, compiler: ConditionCompiler, layout: RowLayout
) -> Sequence[RuleOutput]:
    """The outputs by name. Columns are read from the table: they need no place in the layout."""
    outputs: list[RuleOutput] = []
    for node in query.expressions:
        if isinstance(node, exp.Star):
            if not excludes_only_extra(node):
                raise SparkRequired("* with EXCEPT")
            excluded = {sql_names.EXTRA} if node.args.get("except_") else set()
            for column in filter(lambda name: name not in excluded, layout.types):
                outputs.append(RuleOutput(column, _read_column(column, layout), True))
            continue
        expression = node.unalias()
        if isinstance(expression, exp.Column):
            compiler.check_column(expression)
            value = _read_column(layout.resolve(expression.name), layout)
        else:
            value = compiler.compile_value(expression)
        is_column = isinstance(expression, exp.Column)
        outputs.append(RuleOutput(node.alias_or_name, value, is_column))
    return outputs


def _read_column(column: str, layout: RowLayout) -> Value:
    def get(_row: Row) -> NoReturn:
        raise AssertionError("columns of events are read from the table")

    return Value(layout.types[column], get, column, is_whole=True, is_raw=True)


def _check_output(
    name: str, outputs: Mapping[str, RuleOutput], output_types: Mapping[str, str]
) -> RuleOutput:
    output = outputs.get(name.lower())
    if output is None or output.value.type != output_types[name]:
        raise SparkRequired("output column of another type")
    if not output.value.is_exact:
        raise SparkRequired("output of lower(…), which depends on the form of a sigma")
    return output._replace(name=name)
