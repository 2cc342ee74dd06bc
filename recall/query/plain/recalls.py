"""Expressions of recalls, conditions and stages for DuckDB. No I/O."""

from collections.abc import Collection, Mapping

from recall.query.plain.expressions import ExpressionWriter
from recall.query.plain.model import RECALL_TYPES, select_columns
from recall.query.plain.rendering import DuckDBDialect


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
