"""What Spark's plans of queries consist of, many queries by one call to the JVM.

The plans are walked by `org.moirae.plans.PlanReader`: to walk one from here costs a call for each
of its nodes.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson
from pyspark.sql import SparkSession


class PlanPart(NamedTuple):
    """A distinct part of a plan.

    `kind`: "node", "foreign view", "expression", "function", "undetermined" (the source of a value
    that is not deterministic) or "size" (the plan has more than `name` nodes). `name`: of its class.
    `function`: as users know it.
    """

    kind: str
    name: str
    function: str = ""


class TextConversion(NamedTuple):
    """Text that an expression converts without a CAST that is written in the query.

    `text`: if it is a constant. `start`, `stop`: the first and last character of the expression in
    the query; None: unknown.
    """

    parent: str
    target_type: str
    text: str | None
    start: int | None
    stop: int | None
    sql: str


class AnalysedQuery(NamedTuple):
    """An analysed query: its parts in the order of a walk of its plan, and its columns as JSON."""

    parts: Sequence[PlanPart | TextConversion]
    columns: str


def read_parsed(session: SparkSession, queries: Sequence[str]) -> list[list[PlanPart] | None]:
    """The parts of each query before any name in it is looked up; None: Spark cannot parse it."""
    parts_by_query = _read(session, "readParsed", queries)
    return [
        None if parts is None else [PlanPart(*part) for part in parts] for parts in parts_by_query
    ]


def read_analysed(session: SparkSession, queries: Sequence[str]) -> list[AnalysedQuery | None]:
    """The parts and columns of each query, analysed; None: Spark rejects it."""
    return [
        None if answer is None else _to_analysed_query(answer)
        for answer in _read(session, "readAnalysed", queries)
    ]


def _read(session: SparkSession, method: str, queries: Sequence[str]) -> list[Any]:
    java: Any = session._jvm
    texts = java.java.util.ArrayList()
    for query in queries:
        texts.add(query)
    reader = getattr(java.org.moirae.plans.PlanReader, method)
    answers: list[Any] = orjson.loads(reader(session._jsparkSession, texts))
    return answers


def _to_analysed_query(answer: dict[str, Any]) -> AnalysedQuery:
    parts: list[PlanPart | TextConversion] = []
    for kind, *values in answer["parts"]:
        if kind == "conversion":
            parts.append(TextConversion(*values))
        else:
            parts.append(PlanPart(kind, *values))
    return AnalysedQuery(parts, answer["columns"])
