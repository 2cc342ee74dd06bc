"""What merged partial answers say, by an engine only where one is needed; and how values are
written.
"""

import base64
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa

from recall.engines.template import Template
from recall.errors import SparkRequired
from recall.operators import aggregate_values
from recall.query import sql_names
from recall.requests import RecallEvent

# An answer: rows of columns.
AnswerRows = list[dict[str, Any]]
MergedPartials = Sequence[tuple[RecallEvent, pa.Table | None]]
# What an engine makes of the merged values of some events: their answers, by eid, as rows in their
# order. Raises `NotServed`.
MergeFunction = Callable[[Template, Sequence[RecallEvent], pa.Table], dict[str, AnswerRows]]


def compute_answers(
    template: Template, partials: MergedPartials, merge_functions: Iterable[MergeFunction]
) -> dict[str, AnswerRows]:
    """What each event's merged partial answers say, as rows in their order: as they are where that
    is all, else by the first engine that can. Raises `NotServed` where none can.
    """
    found = (
        aggregate_values(template.split, table, str(asked.eid), template.question.types)
        for asked, table in partials
    )
    known = [table for table in found if table is not None]
    if not known:
        return {}
    plain = template.split.direct_columns
    if plain is not None and not template.split.has_sketches:
        return _direct_rows(known, plain)
    table = _concat_tables(known)
    for merge in merge_functions:
        with suppress(SparkRequired):
            return merge(template, [asked for asked, _ in partials], table)
    raise SparkRequired("the merge")


def _direct_rows(tables: Sequence[pa.Table], outputs: Mapping[str, str]) -> dict[str, AnswerRows]:
    """Merged values as they are, written as Spark writes JSON; `outputs`: see `Split.plain`."""
    found: dict[str, AnswerRows] = {}
    for table in tables:
        for row in table.to_pylist():
            shown = {name: to_json_value(row[column]) for name, column in outputs.items()}
            found.setdefault(row[sql_names.EID], []).append(shown)
    return {eid: order_rows([(0, row) for row in rows]) for eid, rows in found.items()}


def order_rows(rows: Iterable[tuple[int, dict[str, Any]]]) -> AnswerRows:
    """Rows by their numbers; those without an order of their own (all 0) by what they say, so that
    any engine gives the same answer each time.
    """
    return [row for _, row in sorted(rows, key=lambda one: (one[0], orjson.dumps(one[1])))]


def _concat_tables(tables: Sequence[pa.Table]) -> pa.Table:
    """Tables of the same columns as one; what has no type takes another's, or that of numbers."""
    known = {
        field.name: field.type
        for table in tables
        for field in table.schema
        if not pa.types.is_null(field.type)
    }
    schema = pa.schema([(name, known.get(name, pa.float64())) for name in tables[0].column_names])
    return pa.concat_tables([table.cast(schema) for table in tables])


def to_json_value(value: Any) -> Any:
    """A value as Spark writes it in JSON."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, datetime):
        moment = value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        return moment if value.tzinfo is not None else value.isoformat(timespec="microseconds")
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {name: to_json_value(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_value(one) for one in value]
    return value.isoformat() if isinstance(value, date) else value
