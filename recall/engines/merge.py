"""The merge of a question over a handful of merged values, in this process: what Spark would say,
without a job.

Serves what `tests/property/test_split_answers.py` shows to be the same: outputs, HAVING and ORDER
BY made of merged numbers by + - * /, comparisons, AND, OR, NOT, IS NULL, IN, BETWEEN, CASE,
coalesce and nullif. Where that fails, as a division by zero does, Spark is asked.
"""

from collections.abc import Sequence

import duckdb
import pyarrow as pa
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

from recall.engines.answers import AnswerRows, order_rows, to_json_value
from recall.engines.duckdb_session import fetch_table
from recall.engines.pending_events import PLAIN_TYPES, PendingEvent, create_pending_table
from recall.engines.template import PENDING_TABLE, Template
from recall.query import sql_names
from recall.requests import RecallEvent

_PORTABLE_NODES = (
    *(
        exp.Select,
        exp.From,
        exp.Table,
        exp.Identifier,
        exp.Alias,
        exp.TableAlias,
        exp.Paren,
        exp.Where,
    ),
    *(exp.Order, exp.Ordered, exp.Limit, exp.Boolean, exp.Null, exp.Neg),
    *(
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
    ),
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Case, exp.If, exp.Coalesce, exp.Nullif),
)


def is_portable(template: Template) -> bool:
    """Whether the merge is of the parts of SQL that are known to be the same here."""
    used, question = template.merge.inputs, template.question
    if (
        template.split.has_sketches
        or used.relations
        or used.event_tables - {sql_names.MERGED_TABLE}
    ):
        return False
    if any(kind not in PLAIN_TYPES for kind in question.attributes.values()):
        return False
    return all(_is_portable_node(node) for node in template.split.merge.walk())


def _is_portable_node(node: exp.Expr) -> bool:
    if isinstance(node, exp.Literal):
        return node.is_int and not node.is_string  # a fraction is a decimal number in Spark
    if isinstance(node, exp.Column):
        return not node.table  # else it is the event's
    return type(node) in _PORTABLE_NODES and (
        not isinstance(node, exp.Is) or isinstance(node.expression, exp.Null)
    )


def to_duckdb_sql(template: Template) -> str:
    """The merge in DuckDB's words."""
    query = template.merge.query.copy()
    for division in reversed(list(query.find_all(exp.Div))):  # the inner ones first
        by = division.expression
        zero = exp.EQ(this=by.copy(), expression=exp.Literal.number(0))
        fault = exp.func("error", exp.Literal.string("division by zero"))
        number = exp.Div(
            this=exp.cast(division.this.copy(), "double"), expression=exp.cast(by.copy(), "double")
        )
        division.replace(exp.Case().when(zero, fault).else_(number))
    return query.sql(dialect=DuckDB)


def run_merge(
    duck: duckdb.DuckDBPyConnection,
    sql: str,
    template: Template,
    events: Sequence[RecallEvent],
    values: pa.Table,
) -> dict[str, AnswerRows] | None:
    """The answers of all events, by eid; None where Spark is to be asked. `sql`: see `in_duckdb`."""
    kinds = {field.name: field.type for field in values.schema if field.name != sql_names.EID}
    if not all(_is_plain_type(kind) for kind in kinds.values()):
        return None
    for column in template.split.merge.find_all(exp.Column):
        # Texts and truth values are not mixed with numbers, where the two have rules of their own.
        kind = kinds.get(column.name)
        number = kind is not None and (pa.types.is_integer(kind) or pa.types.is_floating(kind))
        if not number and not isinstance(column.parent, exp.Alias | exp.Select | exp.Ordered):
            return None
    duck.register(sql_names.MERGED_TABLE, values)
    duck.register(
        PENDING_TABLE,
        create_pending_table(
            [PendingEvent(one, None, one.ts) for one in events], template.question.attributes
        ),
    )
    try:
        found = fetch_table(duck, sql)
    except duckdb.InterruptException:
        raise
    except duckdb.Error:
        return None
    return _rows_by_event(found)


def _is_plain_type(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_float64(kind) or kind in (pa.bool_(), pa.string())
    )


def _rows_by_event(found: pa.Table) -> dict[str, AnswerRows]:
    names = [name for name in found.column_names if name not in (sql_names.EID, "_row")]
    rows: dict[str, list[tuple[int, dict[str, object]]]] = {}
    for row in found.to_pylist():
        rows.setdefault(row[sql_names.EID], []).append(
            (row.get("_row", 0), {name: to_json_value(row[name]) for name in names})
        )
    return {eid: order_rows(mine) for eid, mine in rows.items()}
