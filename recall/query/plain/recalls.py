"""Expressions of recalls, conditions and stages for DuckDB. No I/O."""

from collections.abc import Collection, Mapping

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

from recall.query.plain.expressions import ExpressionWriter
from recall.query.plain.json_paths import read_json_path, to_duckdb_path
from recall.query.plain.model import RECALL_TYPES, select_columns
from recall.query.plain.rendering import DuckDBDialect
from recall.query.sql_names import JSON_TEXT


def create_recall_writer(
    tables: Mapping[str, Mapping[str, str]], qualified_tables: Collection[str]
) -> ExpressionWriter:
    """Writes expressions of recalls and conditions for DuckDB.

    `tables`: the types of columns by table; `qualified_tables`: see `ExpressionWriter`.
    """
    writer = ExpressionWriter(DuckDBDialect(), parameterized=False)
    for name, types in tables.items():
        writer.add_table(name, select_columns(types, RECALL_TYPES))
    writer.qualified_tables.update(qualified_tables)
    return writer


def to_duckdb_sql(query: exp.Expr) -> str:
    """A query that means the same in Spark and in DuckDB, as text for DuckDB."""
    return query.transform(_split_between).transform(_replace_json_paths).sql(dialect=DuckDB)


def _replace_json_paths(node: exp.Expr) -> exp.Expr:
    """`get_json_object` as the function of DuckDB that gives the same text."""
    if not isinstance(node, exp.JSONExtractScalar):
        return node
    keys = read_json_path(node.expression)
    assert keys is not None  # the writer of expressions accepts no other
    path = exp.Literal.string(to_duckdb_path(keys))
    return exp.Anonymous(this=JSON_TEXT, expressions=[node.this.copy(), path])


def _split_between(node: exp.Expr) -> exp.Expr:
    """BETWEEN as two comparisons, as in Spark: DuckDB casts all three values to one type."""
    if not isinstance(node, exp.Between):
        return node
    value, low, high = node.this, node.args["low"], node.args["high"]
    above = exp.GTE(this=value.copy(), expression=low.copy())
    below = exp.LTE(this=value.copy(), expression=high.copy())
    return exp.Paren(this=exp.And(this=above, expression=below))
