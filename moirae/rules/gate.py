"""SQL that people write is code: what may run is decided on Spark's own analysed plan, by lists of what is allowed."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType


@dataclass
class Refusal(Exception):
    """Why a query is refused, and the line and column (from 1) in its text; `fragment`: the part at fault."""

    message: str
    line: int = 1
    column: int = 1
    fragment: str = ""

    def __str__(self) -> str:
        return self.message


# Nodes of an analysed query over views. Everything else (commands, scripts, files, hints that repartition, …) is not.
_NODES = frozenset(
    "Project Filter Aggregate Join SubqueryAlias View Union Distinct Generate Expand WithCTE CTERelationDef "
    "CTERelationRef OneRowRelation Intersect Except".split()
)
# What only queries of our own making have: the one that watches for absence looks at the next row; queries about
# events count rows for each event.
_OWN_NODES = frozenset({"Window"})

# Expressions that reach out of the query, or tell who and where it runs.
_EXPRESSIONS = frozenset(
    "CallMethodViaReflection TryReflect PythonUDF PythonUDAF ScalaUDF ScalaUDAF HiveSimpleUDF HiveGenericUDF "
    "InputFileName InputFileBlockStart InputFileBlockLength CurrentUser CurrentDatabase CurrentCatalog "
    "CurrentTimestamp CurrentDate Now LocalTimestamp CurrentTime CurrentTimeZone SparkVersion Sleep RaiseError "
    "VariableReference FromAvro ToAvro CatalystDataToAvro AvroDataToCatalyst".split()
)


def judge(spark: SparkSession, sql: str, own: bool = False) -> StructType:
    """The columns of a query in a session that holds only what it may read. Raises `Refusal`; runs nothing."""
    state = spark._jsparkSession.sessionState()
    try:
        parsed = state.sqlParser().parsePlan(sql)
        for node in _tree(parsed):
            name = node.getClass().getSimpleName()
            if any(word in name for word in ("Command", "Execute", "Compound", "Script", "Create", "Insert", "Set")):
                raise Refusal(f"{name} is not a query")
        frame = spark.sql(sql)
        analysed = frame._jdf.queryExecution().analyzed()
        _check(analysed, _NODES | (_OWN_NODES if own else frozenset()))
        return frame.schema
    except PySparkException as error:
        raise _refusal(error, sql) from error


def _check(plan: Any, allowed: frozenset[str]) -> None:
    name = plan.getClass().getSimpleName()
    if name not in allowed:
        raise Refusal(f"{name} is not allowed in an event query")
    for expression in _each(plan.expressions()):
        _check_expression(expression)
    if name != "View":  # an allowed leaf; what it stands for is ours
        for child in _each(plan.children()):
            _check(child, allowed)


def _check_expression(expression: Any) -> None:
    for node in _tree(expression):
        name = node.getClass().getSimpleName()
        if name in _EXPRESSIONS or "Subquery" in name:
            raise Refusal(f"{node.prettyName()} is not allowed in an event query")
        if not node.deterministic() and all(child.deterministic() for child in _each(node.children())):
            raise Refusal(f"{node.prettyName()}() gives another answer each time; live and history must agree")


def _tree(node: Any) -> Iterator[Any]:
    yield node
    for child in _each(node.children()):
        yield from _tree(child)


def _each(sequence: Any) -> Iterator[Any]:
    for index in range(sequence.size()):
        yield sequence.apply(index)


def _refusal(error: PySparkException, sql: str) -> Refusal:
    message = (error.getMessage() if isinstance(error, AnalysisException) else str(error)) or str(error)
    first = message.strip().splitlines()[0].split(" SQLSTATE:")[0]
    contexts = error.getQueryContext() if isinstance(error, AnalysisException) else []
    if contexts:
        start, stop = contexts[0].startIndex(), contexts[0].stopIndex()
        return Refusal(first, *_place(sql, start), sql[start : stop + 1])
    if isinstance(error, ParseException):
        return Refusal(first, *_parsed_place(str(error)))
    return Refusal(first)


def _place(sql: str, offset: int) -> tuple[int, int]:
    before = sql[: max(offset, 0)]
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def _parsed_place(message: str) -> tuple[int, int]:
    found = re.search(r"\(line (\d+), pos (\d+)\)", message)
    return (int(found[1]), int(found[2]) + 1) if found else (1, 1)
