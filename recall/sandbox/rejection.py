"""Why a query is rejected, and where in its text."""

import re

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, ParseException, PySparkException

from recall.errors import QueryRejected

_UNKNOWN_COLUMN = re.compile(
    r"\[UNRESOLVED_COLUMN\.\w+\] .*? with name (?P<name>`.+?`) cannot be resolved\."
    r"(?: Did you mean one of the following\? \[(?P<suggestion>[^,\]]+))?"
)


def line_and_column(sql: str, offset: int) -> tuple[int, int]:
    """Line and column (from 1) of a character, by its offset in the text."""
    before = sql[: max(offset, 0)]
    return before.count("\n") + 1, len(before) - before.rfind("\n")


def from_spark_error(error: PySparkException, sql: str) -> QueryRejected:
    """The first line of Spark's message, and the place that it points to."""
    message = str(error)
    if isinstance(error, AnalysisException):
        message = error.getMessage() or message
    summary = _simplify(message.strip().splitlines()[0].split(" SQLSTATE:")[0])
    if isinstance(error, AnalysisException):
        contexts = error.getQueryContext()
        if contexts:
            start, stop = contexts[0].startIndex(), contexts[0].stopIndex()
            line, column = line_and_column(sql, start)
            return QueryRejected(summary, line, column, sql[start : stop + 1])
    if isinstance(error, ParseException):
        line, column = _parse_error_position(str(error))
        return QueryRejected(summary, line, column)
    return QueryRejected(summary)


def _simplify(message: str) -> str:
    """A shorter text for an unknown column, the most frequent mistake."""
    match = _UNKNOWN_COLUMN.match(message)
    if match is None:
        return message
    text = f"unknown column '{_unquote(match['name'])}'"
    # Spark suggests the nearest column, however far it is, and columns that nobody declared.
    suggestion = _unquote(match["suggestion"] or "")
    if suggestion.rpartition(".")[2].startswith("_"):
        return text
    return f"{text}, did you mean '{suggestion}'?" if suggestion else text


def _unquote(name: str) -> str:
    return name.replace("`", "")


def _parse_error_position(message: str) -> tuple[int, int]:
    match = re.search(r"\(line (\d+), pos (\d+)\)", message)
    if match is None:
        return 1, 1
    return int(match[1]), int(match[2]) + 1


def from_java_error(error: Py4JError) -> QueryRejected:
    """An exception of Java that Spark does not translate, in one line."""
    description = str(error)
    exception = getattr(error, "java_exception", None)
    if exception is not None:
        description = str(exception.getClass().getSimpleName())
    summary = description.strip().splitlines()[0]
    return QueryRejected(f"Spark cannot analyse the query: {summary}")
