"""The merge of a question over a handful of merged values, in this process: what Spark would say, without a job.

Serves what `tests/property/test_split_answers.py` shows to be the same: outputs, HAVING and ORDER BY made of merged
numbers by + - * /, comparisons, AND, OR, NOT, IS NULL, IN, BETWEEN, CASE, coalesce and nullif. Where that fails, as a
division by zero does, Spark is asked.
"""

from collections.abc import Sequence

import duckdb
import pyarrow as pa
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

from recall.engines.answers import Rows, in_order, written
from recall.engines.duck import answer
from recall.engines.template import PENDING, Template
from recall.pending import PLAIN, Waiting, plain_pending
from recall.query.lift import EID
from recall.query.split import MERGED
from recall.request import Asked

_NODES = (
    *(exp.Select, exp.From, exp.Table, exp.Identifier, exp.Alias, exp.TableAlias, exp.Paren, exp.Where),
    *(exp.Order, exp.Ordered, exp.Limit, exp.Boolean, exp.Null, exp.Neg),
    *(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.And, exp.Or, exp.Not, exp.Is, exp.In, exp.Between),
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Case, exp.If, exp.Coalesce, exp.Nullif),
)


def served(template: Template) -> bool:
    """Whether the merge is of the parts of SQL that are known to be the same here."""
    used, question = template.merge.used, template.question
    if template.split.sketched or used.relations or used.own - {MERGED}:
        return False
    if any(kind not in PLAIN for kind in question.attributes.values()):
        return False
    return all(_known(node) for node in template.split.merge.walk())


def _known(node: exp.Expr) -> bool:
    if isinstance(node, exp.Literal):
        return node.is_int and not node.is_string  # a fraction is a decimal number in Spark
    if isinstance(node, exp.Column):
        return not node.table  # else it is the event's
    return type(node) in _NODES and (not isinstance(node, exp.Is) or isinstance(node.expression, exp.Null))


def in_duckdb(template: Template) -> str:
    """The merge in DuckDB's words."""
    query = template.merge.query.copy()
    for division in reversed(list(query.find_all(exp.Div))):  # the inner ones first
        by = division.expression
        zero = exp.EQ(this=by.copy(), expression=exp.Literal.number(0))
        fault = exp.func("error", exp.Literal.string("division by zero"))
        number = exp.Div(this=exp.cast(division.this.copy(), "double"), expression=exp.cast(by.copy(), "double"))
        division.replace(exp.Case().when(zero, fault).else_(number))
    return query.sql(dialect=DuckDB)


def merge(
    duck: duckdb.DuckDBPyConnection, sql: str, template: Template, asked: Sequence[Asked], values: pa.Table
) -> dict[str, Rows] | None:
    """The answers of all events, by eid; None where Spark is to be asked. `sql`: see `in_duckdb`."""
    kinds = {field.name: field.type for field in values.schema if field.name != EID}
    if not all(_plain(kind) for kind in kinds.values()):
        return None
    for column in template.split.merge.find_all(exp.Column):
        # Texts and truth values are not mixed with numbers, where the two have rules of their own.
        kind = kinds.get(column.name)
        number = kind is not None and (pa.types.is_integer(kind) or pa.types.is_floating(kind))
        if not number and not isinstance(column.parent, exp.Alias | exp.Select | exp.Ordered):
            return None
    duck.register(MERGED, values)
    duck.register(PENDING, plain_pending([Waiting(one, None, one.ts) for one in asked], template.question.attributes))
    try:
        found = answer(duck, sql)
    except duckdb.InterruptException:
        raise
    except duckdb.Error:
        return None
    return _by_event(found)


def _plain(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_float64(kind) or kind in (pa.bool_(), pa.string()))


def _by_event(found: pa.Table) -> dict[str, Rows]:
    names = [name for name in found.column_names if name not in (EID, "_row")]
    rows: dict[str, list[tuple[int, dict[str, object]]]] = {}
    for row in found.to_pylist():
        rows.setdefault(row[EID], []).append((row.get("_row", 0), {name: written(row[name]) for name in names}))
    return {eid: in_order(mine) for eid, mine in rows.items()}
