"""What queries of a rule name of the coverage of its recalls' answers. No I/O."""

from collections.abc import Iterable
from contextlib import suppress

from sqlglot import exp

from moirae.rules.definition import Definition
from moirae.rules.questions import HistoryRecall
from recall.operators import estimated_outputs
from recall.query import Tables, Unsupported, coverage_columns, named_columns
from recall.query.split import split_query


def find_named_coverage(
    query: exp.Expr, recalls: Iterable[str], definition: Definition, tables: Tables
) -> dict[str, dict[str, str]]:
    """The columns of coverage and estimates that a query names, with their types, by recall.

    `recalls`: those whose answers it reads. Raises `Unsupported`.
    """
    words = {column.name.lower() for column in query.find_all(exp.Column)}
    available = {}
    for name in recalls:
        columns = available_coverage(name, definition, tables)
        if not words.isdisjoint(map(str.lower, columns)):
            available[name] = columns
    return named_columns(query, available) if available else {}


def available_coverage(name: str, definition: Definition, tables: Tables) -> dict[str, str]:
    """The columns of coverage and estimates that the answer of a recall has, with their types."""
    recall = definition.recalls[name]
    estimated: list[str] = []
    if isinstance(recall, HistoryRecall):
        with suppress(Unsupported):  # a problem of the recall itself
            split = split_query(recall.sql, tables, definition.merged_types.get(name))
            estimated = estimated_outputs(split)
    return coverage_columns(definition.output_columns(name), estimated)
