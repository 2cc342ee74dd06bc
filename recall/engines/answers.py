"""Final answers from merged partial answers, and values as Spark writes them in JSON."""

import base64
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from operator import itemgetter
from typing import Any

import orjson
import pyarrow as pa

from recall.engines.norms import answer_norm
from recall.engines.template import Template
from recall.operators import aggregate_values
from recall.query import sql_names
from recall.requests import RecallEvent

# An answer: rows, each by column name.
AnswerRows = list[dict[str, Any]]
# Events with their merged partial answers.
MergedPartials = Sequence[tuple[RecallEvent, pa.Table | None]]
# An engine's final step: from the merged values of some events to their answers, by event ID, rows
# in order.
MergeFunction = Callable[[Sequence[RecallEvent], pa.Table], dict[str, AnswerRows]]


def compute_answers(
    template: Template, partials: MergedPartials, merge: MergeFunction
) -> dict[str, AnswerRows]:
    """The answers of some events, by event ID, rows in order.

    `merge` runs only if the outputs are not merged values themselves.
    """
    norm = template.question.norm_spec
    if norm is not None:
        return {str(event.eid): [answer_norm(norm, event, rows)] for event, rows in partials}
    tables = []
    for event, partial in partials:
        values = aggregate_values(template.split, partial, str(event.eid), template.question.types)
        if values is not None:
            tables.append(values)
    if not tables:
        return {}
    direct_columns = template.split.direct_columns
    if direct_columns is not None and not template.split.has_sketches:
        return _direct_rows(tables, direct_columns)
    events = list(map(itemgetter(0), partials))
    return merge(events, _concat_tables(tables))


def _direct_rows(tables: Sequence[pa.Table], outputs: Mapping[str, str]) -> dict[str, AnswerRows]:
    """Merged values as answers; `outputs`: see `recall.query.split.Split.direct_columns`."""
    rows_by_event: dict[str, AnswerRows] = {}
    for table in tables:
        for values in table.to_pylist():
            row = {name: to_json_value(values[column]) for name, column in outputs.items()}
            rows_by_event.setdefault(values[sql_names.EID], []).append(row)
    answers: dict[str, AnswerRows] = {}
    for eid, rows in rows_by_event.items():
        answers[eid] = sorted(rows, key=orjson.dumps)
    return answers


def _row_order(numbered_row: tuple[int, dict[str, Any]]) -> tuple[int, bytes]:
    number, row = numbered_row
    return number, orjson.dumps(row)


def order_rows(numbered_rows: Iterable[tuple[int, dict[str, Any]]]) -> AnswerRows:
    """Rows by their numbers; rows without an order (all 0) by content.

    So all engines give the same answer, every time.
    """
    return list(map(itemgetter(1), sorted(numbered_rows, key=_row_order)))


def _concat_tables(tables: Sequence[pa.Table]) -> pa.Table:
    """Concatenate tables of the same columns.

    A column of type null takes its type from another table, or else becomes float64.
    """
    types: dict[str, pa.DataType] = {}
    for table in tables:
        for column in table.schema:
            if not pa.types.is_null(column.type):
                types[column.name] = column.type
    names = tables[0].column_names
    schema = pa.schema([(name, types.get(name, pa.float64())) for name in names])
    return pa.concat_tables([table.cast(schema) for table in tables])


def to_json_value(value: Any) -> Any:
    """A value as Spark writes it in JSON."""
    if isinstance(value, float) and not math.isfinite(value):
        if math.isnan(value):
            return "NaN"
        if value > 0:
            return "Infinity"
        return "-Infinity"
    if isinstance(value, datetime):
        if value.tzinfo is None:
            return value.isoformat(timespec="microseconds")
        text = value.astimezone(UTC).isoformat(timespec="microseconds")
        return text.replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {name: to_json_value(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return list(map(to_json_value, value))
    return value
