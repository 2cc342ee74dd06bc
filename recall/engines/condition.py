"""A rule's `where` judged in this process, where it is in the part of SQL that `recall.engines.subset` is sure of."""

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp

from recall.engines.duck import connect
from recall.engines.subset import NotServed, Typing
from recall.pending import PLAIN, plain_value
from recall.query.parts import EVENT
from recall.query.shape import parse
from recall.request import Asked, SqlQuestion

# Rows of answers, and the types of their columns, by the recall's name.
Answers = Mapping[str, tuple[Sequence[Mapping[str, Any]], Mapping[str, str]]]

_MICROS = pa.timestamp("us", tz="UTC")


def holds(question: SqlQuestion, asked: Asked, answers: Answers) -> bool | None:
    """See `recall.engines.spark.SparkEngine.judge`. Raises `NotServed`."""
    plain = {name: kind for name, kind in question.attributes.items() if kind in PLAIN}
    tables = {name: {c: kind for c, kind in columns.items() if kind in PLAIN} for name, (_, columns) in answers.items()}
    condition = parse(f"SELECT {question.where}").expressions[0].unalias()
    typing = _OfAnswers({"ts": "timestamp", **plain}, tables)
    if typing.kind(condition) not in ("boolean", "null"):
        raise NotServed("a condition")
    event = {"ts": pa.array([asked.ts], _MICROS), **_columns([asked.attributes], plain)}
    joins = " ".join(f'LEFT JOIN "{name}" ON true' for name in tables)
    words = sqlglot.transpile(condition.sql(dialect="spark"), read="spark", write="duckdb")[0]
    try:
        with connect() as duck:
            duck.register(EVENT, pa.table(event))
            for name, kinds in tables.items():
                rows = answers[name][0]
                duck.register(name, pa.table({"_row": pa.nulls(len(rows), pa.bool_()), **_columns(rows, kinds)}))
            found = duck.execute(f'SELECT {words} FROM "{EVENT}" {joins}').fetchall()
    except (duckdb.Error, pa.ArrowException, ValueError) as error:
        raise NotServed(str(error)) from error
    decided = [bool(row[0]) for row in found if row[0] is not None]
    return any(decided) if decided else None


def _columns(rows: Sequence[Mapping[str, Any]], kinds: Mapping[str, str]) -> dict[str, pa.Array]:
    return {
        name: pa.array([plain_value(row.get(name), PLAIN[kind]) for row in rows], PLAIN[kind])
        for name, kind in kinds.items()
    }


class _OfAnswers(Typing):
    """Columns are those of the event or of a recall's answer, and say of which."""

    def __init__(self, event: Mapping[str, str], tables: Mapping[str, Mapping[str, str]]) -> None:
        super().__init__({}, event)
        every = {**tables, EVENT: event}
        self._known = {(t.lower(), c.lower()): kind for t, found in every.items() for c, kind in found.items()}

    def type(self, node: exp.Expr) -> str | None:
        """See `Typing`."""
        if not isinstance(node, exp.Column) or node.db:
            return None
        return self._known.get((node.table.lower(), node.name.lower()))
