"""Validation of one query on Spark's own plans, by the lists in `recall.sandbox.allowlist`.

First the query is parsed, and anything but a plain query is rejected before any name in it is
looked up, because looking up has effects (`EXECUTE IMMEDIATE` would run). Then it is analysed in a
session that has only the views that it may read. Every node, function and table of the analysed
plan must be allowed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from recall.errors import QueryRejected
from recall.sandbox.allowlist import (
    ANALYSED_NODES,
    DROPPED_FUNCTIONS,
    EXPRESSIONS,
    FORBIDDEN_PARTS,
    INTERNAL_EXPRESSIONS,
    INTERNAL_NODES,
    INTERNAL_UNORDERED_AGGREGATES,
    PARSED_NODES,
)
from recall.sandbox.rejection import from_java_error, from_spark_error, line_and_column
from recall.sandbox.spark_plan import (
    class_name,
    expressions_of,
    iterate_scala,
    text_span,
    walk_plan,
)
from recall.sandbox.time_limit import run_with_limit

_CPU_LIMIT = 20.0  # seconds for the analysis of one query

_COMPARISONS = frozenset(
    (
        "EqualTo",
        "EqualNullSafe",
        "LessThan",
        "LessThanOrEqual",
        "GreaterThan",
        "GreaterThanOrEqual",
        "In",
    )
)
# Prefixes of Spark's names of numeric types.
_NUMERIC_TYPES = ("double", "float", "integer", "long", "short", "byte", "decimal")

# Errors that mean that Spark is gone, which is not the query's fault.
SPARK_LOST = (Py4JNetworkError, ConnectionError)


@dataclass(frozen=True)
class Allowlist:
    """What an analysed query may consist of.

    `unordered`: aggregates that may depend on the order of rows.
    """

    nodes: frozenset[str] = ANALYSED_NODES
    expressions: frozenset[str] = EXPRESSIONS
    unordered: frozenset[str] = frozenset()


_USER_ALLOWLIST = Allowlist()
_INTERNAL_ALLOWLIST = Allowlist(
    nodes=ANALYSED_NODES | INTERNAL_NODES,
    expressions=EXPRESSIONS | INTERNAL_EXPRESSIONS,
    unordered=INTERNAL_UNORDERED_AGGREGATES,
)


def harden_session(session: SparkSession) -> SparkSession:
    """Remove functions that call Java by name, and access to files and variables, in a session.

    Each new session has these functions again.
    """
    session.conf.set("spark.sql.runSQLOnFiles", "false")
    session.conf.set("spark.sql.variable.substitute", "false")
    session.conf.set("spark.sql.scripting.enabled", "false")
    java: Any = session._jvm
    catalog, database = java.scala.Some("system"), java.scala.Some("builtin")
    registry = session._jsparkSession.sessionState().functionRegistry()
    for name in DROPPED_FUNCTIONS:
        identifier = java.org.apache.spark.sql.catalyst.FunctionIdentifier(name, database, catalog)
        registry.dropFunction(identifier)
    return session


def validate_query(session: SparkSession, sql: str, internal: bool = False) -> StructType:
    """The columns of a query. Raises `QueryRejected`; runs nothing.

    `session`: a hardened session whose views are all that the query may read. `internal`: the query
    was derived from one that was validated, and may have the window functions that only the
    rewriting uses.
    """
    allowlist = _INTERNAL_ALLOWLIST if internal else _USER_ALLOWLIST

    def validate() -> StructType:
        parser = session._jsparkSession.sessionState().sqlParser()
        _check_parsed(parser.parsePlan(sql), internal)
        frame = session.sql(sql)
        analysed_plan = frame._jdf.queryExecution().analyzed()
        _check_analysed(analysed_plan, allowlist)
        if not internal:
            _check_comparisons(analysed_plan, _user_cast_tag(session), sql)
        return frame.schema

    try:
        return run_with_limit(validate, session, _CPU_LIMIT)
    except PySparkException as error:
        raise from_spark_error(error, sql) from error
    except SPARK_LOST:
        raise
    except Py4JError as error:
        raise from_java_error(error) from error


# The parsed plan


def _check_parsed(root: Any, internal: bool) -> None:
    allowed_nodes = PARSED_NODES
    if internal:
        allowed_nodes |= INTERNAL_NODES
    for plan in walk_plan(root, include_inner=True):
        if class_name(plan) not in allowed_nodes:
            raise _not_allowed(_display_name(class_name(plan)))
        for expression in expressions_of(plan):
            for part in walk_plan(expression):
                _check_parsed_expression(part)


def _check_parsed_expression(part: Any) -> None:
    name = class_name(part)
    if name == "UnresolvedFunction":
        function = str(part.nameParts().last()).lower()
        if function in DROPPED_FUNCTIONS:
            raise _not_allowed(function)
    if name in FORBIDDEN_PARTS:
        raise _not_allowed(_display_name(name))


def _display_name(name: str) -> str:
    """The name of one of Spark's classes as users may know it."""
    return name.removeprefix("Unresolved").removesuffix("$")


def _not_allowed(name: str) -> QueryRejected:
    return QueryRejected(f"{name} is not allowed in a query")


# The analysed plan


def _check_analysed(root: Any, allowlist: Allowlist) -> None:
    for plan in walk_plan(root, stop_at="View"):
        name = class_name(plan)
        is_foreign_view = name == "View" and not plan.isTempView()
        if name not in allowlist.nodes or is_foreign_view:
            raise _not_allowed(_display_name(name))
        for expression in expressions_of(plan):
            _check_deterministic(expression, allowlist)
            for node in walk_plan(expression):
                if class_name(node) not in allowlist.expressions:
                    raise _not_allowed(node.prettyName())


def _check_deterministic(expression: Any, allowlist: Allowlist) -> None:
    if expression.deterministic():
        return
    for node in walk_plan(expression):
        if node.deterministic() or class_name(node) in allowlist.unordered:
            continue
        if all(child.deterministic() for child in iterate_scala(node.children())):
            raise QueryRejected(
                f"{node.prettyName()}() is not deterministic: "
                "live and replayed results would differ"
            )


# Comparisons


def _user_cast_tag(session: SparkSession) -> Any:
    """Spark's tag of a CAST that is written in the query."""
    java: Any = session._jvm
    return java.org.apache.spark.sql.catalyst.expressions.Cast.USER_SPECIFIED_CAST()


def _check_comparisons(root: Any, user_cast_tag: Any, sql: str) -> None:
    """Reject comparisons of a number with text that is not a number: evaluation fails."""
    for comparison in _comparisons_in(root):
        for side in iterate_scala(comparison.children()):
            if _is_implicit_number(side, user_cast_tag):
                raise _number_with_text(comparison, sql)


def _comparisons_in(root: Any) -> Iterator[Any]:
    for plan in walk_plan(root, stop_at="View"):
        for expression in expressions_of(plan):
            for node in walk_plan(expression):
                if class_name(node) in _COMPARISONS:
                    yield node


def _is_implicit_number(side: Any, user_cast_tag: Any) -> bool:
    """Whether Spark casts text to a number here; number literals in quotes are fine."""
    if class_name(side) != "Cast" or side.getTagValue(user_cast_tag).isDefined():
        return False
    text = side.child()
    is_text = text.dataType().typeName() == "string"
    if not is_text or not side.dataType().typeName().startswith(_NUMERIC_TYPES):
        return False
    return not (class_name(text) == "Literal" and is_number(str(text.value())))


def _number_with_text(comparison: Any, sql: str) -> QueryRejected:
    span = text_span(comparison)
    if span is None:
        return QueryRejected(f"compares a number with text: {comparison.sql()}")
    start, stop = span
    fragment = sql[start:stop]
    line, column = line_and_column(sql, start)
    return QueryRejected(f"compares a number with text: {fragment}", line, column, fragment)


def is_number(text: str) -> bool:
    """Whether text can be compared with numbers."""
    try:
        float(text)
    except ValueError:
        return False
    return True
