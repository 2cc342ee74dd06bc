"""SQL that means the same in Spark and in DuckDB.

`ExpressionWriter` decides for each expression: in rules, in recalls and in conditions. It accepts
columns and constants of plain types, comparisons, AND, OR, NOT, IN, BETWEEN, LIKE, IS NULL, CASE
and + - * / %. What it does not accept raises `SparkRequired`.

`to_plain` writes event queries. A plain event query is one SELECT over one stream, or over another
such SELECT, that filters and projects, or groups by windows and columns. It may join relations, as
of the time of the row, and use the common aggregates. The query is rewritten with every name
qualified and every type explicit. The constants of its outermost SELECT move to a table, so that
queries which differ only in constants have one text. Sliding windows are also written in two steps:
rows into panes, panes into windows.

`tests/contract` compares both engines with Spark's reading of the original queries. No I/O.
"""

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from recall.errors import SparkRequired
from recall.query.plain.expressions import COMPARISONS, ExpressionWriter, literal_type
from recall.query.plain.model import (
    EXACT_TYPES,
    PLAIN_TYPES,
    PanedQuery,
    PlainQuery,
    PlainType,
    SqlDialect,
    TypedExpression,
    select_columns,
)
from recall.query.plain.recalls import create_recall_writer, to_duckdb_sql
from recall.query.plain.rendering import DuckDBDialect, SparkDialect
from recall.query.plain.select import RenderedSelect, SelectWriter
from recall.query.plain.stage_select import check_stage_select

__all__ = [
    "COMPARISONS",
    "DuckDBDialect",
    "EXACT_TYPES",
    "ExpressionWriter",
    "PLAIN_TYPES",
    "PanedQuery",
    "PlainQuery",
    "PlainType",
    "SparkDialect",
    "TypedExpression",
    "check_stage_select",
    "create_recall_writer",
    "literal_type",
    "select_columns",
    "to_duckdb_sql",
    "to_plain",
]


def to_plain(
    query: exp.Query,
    tables: Mapping[str, Mapping[str, str]],
    output_types: Mapping[str, str],
    dialect: SqlDialect,
    relations: Mapping[str, Mapping[str, str]] | None = None,
) -> PlainQuery:
    """Write a query in an engine's dialect. Raises `SparkRequired`.

    `tables`: the types of the columns of the streams' physical tables; `relations`: of those of the
    relations. `output_types`: the types of the query's attributes (all outputs but `ts`) as Spark
    determined them; if an attribute would have another type here, the query is not plain.
    """
    if not isinstance(query, exp.Select):
        raise SparkRequired("not a single SELECT")
    writer = SelectWriter(dialect, tables, relations or {}, parameterized=True)
    rendered = writer.write(query)
    outputs = _check_outputs(rendered, output_types)
    columns = [f"{outputs['ts'].sql} AS ts"]
    written_types = []
    for number, name in enumerate(output_types):
        output = outputs[name.lower()]
        columns.append(f"{output.sql} AS c{number}")
        written_types.append(output.type)
    head = f"SELECT {writer.rule_column} AS rule, {', '.join(columns)} "
    before_source, before_constants, after_constants = rendered.text_parts
    paned_query = rendered.paned_query
    if paned_query is not None:
        first, *remaining = paned_query.merge
        paned_query = replace(paned_query, merge=(head + first, *remaining))
    return PlainQuery(
        text=(head + before_source, before_constants, after_constants),
        source=rendered.source.sql,
        source_is_query=rendered.source.is_query,
        streams=rendered.source.streams,
        constant_types=tuple(constant_type for constant_type, _ in writer.constants),
        output_names=tuple(output_types),
        output_types=tuple(written_types),
        constants=tuple(value for _, value in writer.constants),
        paned_query=paned_query,
        has_relations=rendered.has_relations,
        is_filter=not (rendered.has_windows or rendered.has_relations or rendered.source.is_query),
    )


def _check_outputs(
    rendered: RenderedSelect, output_types: Mapping[str, str]
) -> dict[str, TypedExpression]:
    """The outputs by name in lower case: `ts` and the attributes. Raises `SparkRequired`."""
    outputs = {name.lower(): value for name, value in rendered.outputs}
    expected_types = {name.lower(): output_type for name, output_type in output_types.items()}
    expected_types["ts"] = "timestamp"
    if len(outputs) != len(rendered.outputs) or outputs.keys() != expected_types.keys():
        raise SparkRequired("output column without a unique name")
    for name, expected_type in expected_types.items():
        if outputs[name].type != expected_type:
            raise SparkRequired(
                "output column of a type other than int, bigint, double, string, boolean and "
                "timestamp"
            )
    return outputs
