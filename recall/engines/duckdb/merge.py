"""The final step of a recall over a few merged values, in DuckDB instead of a Spark job.

It serves what `tests/property/test_split_answers.py` shows to equal Spark: outputs, HAVING and
ORDER BY of merged numbers with + - * /, comparisons, AND, OR, NOT, IS NULL, IN, BETWEEN, CASE,
coalesce and nullif. If a statement fails, such as by a division by zero, Spark runs it.
"""

from collections.abc import Sequence

import pyarrow as pa
from sqlglot import exp

from archiver.time_range import TimeRange
from recall.engines.answers import AnswerRows, order_rows, to_json_value
from recall.engines.pending_events import PLAIN_TYPES, PendingEvent, create_pending_table
from recall.engines.template import PENDING_TABLE, Template
from recall.errors import SparkRequired
from recall.query import sql_names
from recall.query.plain import to_duckdb_sql
from recall.requests import RecallEvent
from recall.statements import DuckDBStatements, Statement

_QUERY_NODES = (
    exp.Select,
    exp.From,
    exp.Table,
    exp.Identifier,
    exp.Alias,
    exp.TableAlias,
    exp.Paren,
    exp.Where,
    exp.Order,
    exp.Ordered,
    exp.Limit,
)
_CONDITION_NODES = (
    exp.EQ,
    exp.NEQ,
    exp.LT,
    exp.LTE,
    exp.GT,
    exp.GTE,
    exp.And,
    exp.Or,
    exp.Not,
    exp.Is,
    exp.In,
    exp.Between,
)
_VALUE_NODES = (
    exp.Boolean,
    exp.Null,
    exp.Neg,
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Div,
    exp.Case,
    exp.If,
    exp.Coalesce,
    exp.Nullif,
)
_PORTABLE_NODES = frozenset((*_QUERY_NODES, *_CONDITION_NODES, *_VALUE_NODES))


def is_portable(template: Template) -> bool:
    """Whether DuckDB is known to give Spark's answer."""
    inputs = template.merge.inputs
    if (
        template.split.has_sketches
        or inputs.relations
        or inputs.event_tables - {sql_names.MERGED_TABLE}
    ):
        return False
    if not PLAIN_TYPES.keys() >= set(template.question.attributes.values()):
        return False
    return all(map(_is_portable_node, template.split.merge.walk()))


def _is_portable_node(node: exp.Expr) -> bool:
    if isinstance(node, exp.Literal):
        return node.is_int and not node.is_string  # Spark reads a fraction as a decimal
    if isinstance(node, exp.Column):
        return not node.table  # a qualified column is an attribute of the event
    if isinstance(node, exp.Is):
        return isinstance(node.expression, exp.Null)
    return type(node) in _PORTABLE_NODES


def write_merge(template: Template) -> str:
    """The statement in DuckDB's SQL; division by zero raises an error."""
    query = template.merge.query.copy()
    divisions = list(query.find_all(exp.Div))
    for division in reversed(divisions):  # inner ones first
        divisor = division.expression
        is_zero = exp.EQ(this=divisor.copy(), expression=exp.Literal.number(0))
        error = exp.func("error", exp.Literal.string("division by zero"))
        quotient = exp.Div(
            this=exp.cast(division.this.copy(), "double"),
            expression=exp.cast(divisor.copy(), "double"),
        )
        division.replace(exp.Case().when(is_zero, error).else_(quotient))
    return to_duckdb_sql(query)


def run_merge(
    duckdb: DuckDBStatements,
    text: str,
    template: Template,
    events: Sequence[RecallEvent],
    values: pa.Table,
) -> dict[str, AnswerRows]:
    """The answers of some events, by event ID. Raises `SparkRequired`.

    `text`: from `write_merge`. `values`: merged values of all the events.
    """
    if not _has_portable_types(template, values):
        raise SparkRequired("merge of non-numeric values")
    pending = [PendingEvent(event, TimeRange(None, event.ts)) for event in events]
    tables = {
        sql_names.MERGED_TABLE: values,
        PENDING_TABLE: create_pending_table(pending, template.question.attributes),
    }
    return _rows_by_event(duckdb.run(Statement(text, tables)))


def _has_portable_types(template: Template, values: pa.Table) -> bool:
    """Whether strings, booleans and times are only selected and sorted, never computed with.

    The engines convert them to numbers by different rules.
    """
    types = {field.name: field.type for field in values.schema if field.name != sql_names.EID}
    if not all(map(_is_plain_type, types.values())):
        return False
    for column in template.split.merge.find_all(exp.Column):
        is_number = column.name in types and _is_number_type(types[column.name])
        if not is_number and not isinstance(column.parent, exp.Alias | exp.Select | exp.Ordered):
            return False
    return True


def _is_number_type(arrow_type: pa.DataType) -> bool:
    return bool(pa.types.is_integer(arrow_type) or pa.types.is_floating(arrow_type))


def _is_plain_type(arrow_type: pa.DataType) -> bool:
    if pa.types.is_integer(arrow_type) or pa.types.is_float64(arrow_type):
        return True
    return arrow_type in (pa.bool_(), pa.string(), pa.timestamp("us", tz="UTC"))


def _rows_by_event(rows_table: pa.Table) -> dict[str, AnswerRows]:
    rows_by_event: dict[str, list[tuple[int, dict[str, object]]]] = {}
    for values in rows_table.to_pylist():
        eid = values.pop(sql_names.EID)
        row_number = values.pop("_row", 0)
        row = {name: to_json_value(value) for name, value in values.items()}
        rows_by_event.setdefault(eid, []).append((row_number, row))
    return {eid: order_rows(rows) for eid, rows in rows_by_event.items()}
