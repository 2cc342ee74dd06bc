"""A rule's `where` judged in this process, where it is in the part of SQL that
`recall.engines.portable` is sure of.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp

from recall.engines.duckdb_session import connect_duckdb
from recall.engines.pending_events import PLAIN_TYPES, to_arrow_value
from recall.engines.portable import TypeChecker
from recall.errors import SparkRequired
from recall.query import parse, sql_names
from recall.requests import RecallEvent, SqlQuestion

# Rows of answers, and the types of their columns, by the recall's name.
RecallAnswers = Mapping[str, tuple[Sequence[Mapping[str, Any]], Mapping[str, str]]]

_MICROS = pa.timestamp("us", tz="UTC")


def evaluate_condition(
    question: SqlQuestion, recall_event: RecallEvent, answers: RecallAnswers
) -> bool | None:
    """See `recall.engines.spark.SparkEngine.judge`. Raises `NotServed`."""
    plain = {name: kind for name, kind in question.attributes.items() if kind in PLAIN_TYPES}
    tables = {
        name: {c: kind for c, kind in columns.items() if kind in PLAIN_TYPES}
        for name, (_, columns) in answers.items()
    }
    condition = parse(f"SELECT {question.where}").expressions[0].unalias()
    typing = _AnswerTypeChecker({"ts": "timestamp", **plain}, tables)
    if typing.type_class(condition) not in ("boolean", "null"):
        raise SparkRequired("a condition")
    event = {
        "ts": pa.array([recall_event.ts], _MICROS),
        **_arrow_columns([recall_event.attributes], plain),
    }
    joins = " ".join(f'LEFT JOIN "{name}" ON true' for name in tables)
    words = sqlglot.transpile(condition.sql(dialect="spark"), read="spark", write="duckdb")[0]
    try:
        with connect_duckdb() as duck:
            duck.register(sql_names.EVENT, pa.table(event))
            for name, kinds in tables.items():
                rows = answers[name][0]
                duck.register(
                    name,
                    pa.table(
                        {"_row": pa.nulls(len(rows), pa.bool_()), **_arrow_columns(rows, kinds)}
                    ),
                )
            found = duck.execute(f'SELECT {words} FROM "{sql_names.EVENT}" {joins}').fetchall()
    except (duckdb.Error, pa.ArrowException, ValueError) as error:
        raise SparkRequired(str(error)) from error
    decided = [bool(row[0]) for row in found if row[0] is not None]
    return any(decided) if decided else None


def _arrow_columns(
    rows: Sequence[Mapping[str, Any]], kinds: Mapping[str, str]
) -> dict[str, pa.Array]:
    return {
        name: pa.array(
            [to_arrow_value(row.get(name), PLAIN_TYPES[kind]) for row in rows], PLAIN_TYPES[kind]
        )
        for name, kind in kinds.items()
    }


class _AnswerTypeChecker(TypeChecker):
    """Columns are those of the event or of a recall's answer, and say of which."""

    def __init__(self, event: Mapping[str, str], tables: Mapping[str, Mapping[str, str]]) -> None:
        super().__init__({}, event)
        every = {**tables, sql_names.EVENT: event}
        self._types_by_column = {
            (t.lower(), c.lower()): kind for t, found in every.items() for c, kind in found.items()
        }

    def column_type(self, node: exp.Expr) -> str | None:
        """See `Typing`."""
        if not isinstance(node, exp.Column) or node.db:
            return None
        return self._types_by_column.get((node.table.lower(), node.name.lower()))
