"""Evaluate a rule's `where` with DuckDB, if it is in the portable part of SQL."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa

from recall.engines.pending_events import PLAIN_TYPES, to_arrow_value
from recall.errors import SparkRequired
from recall.event_plans import Condition
from recall.query import parse, sql_names
from recall.query.plain import create_recall_writer, select_columns
from recall.requests import RecallEvent
from recall.statements import DuckDBStatements, Statement

# By recall name: the rows of its answer, and the types of their columns.
RecallAnswers = Mapping[str, tuple[Sequence[Mapping[str, Any]], Mapping[str, str]]]

_Columns = tuple[tuple[str, str], ...]  # names and types

_MAX_CONDITIONS = 1_000  # in memory: parsing one takes milliseconds
_MICROS = pa.timestamp("us", tz="UTC")


def evaluate_condition(
    rule_condition: Condition,
    recall_event: RecallEvent,
    answers: RecallAnswers,
    duckdb: DuckDBStatements,
) -> bool | None:
    """See `SparkEngine.evaluate_condition`. Raises `SparkRequired`."""
    attributes = select_columns(rule_condition.attributes, PLAIN_TYPES)
    types_by_recall: dict[str, Mapping[str, str]] = {}
    for name, (_, types) in answers.items():
        types_by_recall[name] = select_columns(types, PLAIN_TYPES)
    text = _write_query(
        rule_condition.where,
        tuple(attributes.items()),
        tuple((name, tuple(types.items())) for name, types in types_by_recall.items()),
    )
    try:
        event_columns = {
            "ts": pa.array([recall_event.ts], _MICROS),
            **_arrow_columns([recall_event.attributes], attributes),
        }
        rows = {sql_names.EVENT: pa.table(event_columns)}
        for name, types in types_by_recall.items():
            rows[name] = _answer_table(answers[name][0], types)
    except (pa.ArrowException, ValueError) as error:
        raise SparkRequired(str(error)) from error
    result = duckdb.run(Statement(text, tables=rows))
    verdicts: list[bool] = []
    for verdict in result["verdict"].to_pylist():
        if verdict is not None:
            verdicts.append(bool(verdict))
    if not verdicts:
        return None
    return any(verdicts)


@lru_cache(_MAX_CONDITIONS)
def _write_query(
    where: str, attributes: _Columns, recalls: tuple[tuple[str, _Columns], ...]
) -> str:
    """A condition as a query in DuckDB's SQL. Raises `SparkRequired`, each time."""
    condition = parse(f"SELECT {where}").expressions[0].unalias()
    types_by_recall = {name: dict(types) for name, types in recalls}
    tables = {**types_by_recall, sql_names.EVENT: {"ts": "timestamp", **dict(attributes)}}
    writer = create_recall_writer(tables, qualified_tables=tables)
    verdict_sql = writer.write_condition(condition, allow_null=True)
    joins = " ".join(map('LEFT JOIN "{}" ON true'.format, types_by_recall))
    return f'SELECT {verdict_sql} AS verdict FROM "{sql_names.EVENT}" {joins}'


def _answer_table(rows: Sequence[Mapping[str, Any]], types: Mapping[str, str]) -> pa.Table:
    # The column `_row` keeps the number of rows if there is no other column.
    return pa.table({"_row": pa.nulls(len(rows), pa.bool_()), **_arrow_columns(rows, types)})


def _arrow_columns(
    rows: Sequence[Mapping[str, Any]], types: Mapping[str, str]
) -> dict[str, pa.Array]:
    columns = {}
    for name, type_name in types.items():
        arrow_type = PLAIN_TYPES[type_name]
        values = [to_arrow_value(row.get(name), arrow_type) for row in rows]
        columns[name] = pa.array(values, arrow_type)
    return columns
