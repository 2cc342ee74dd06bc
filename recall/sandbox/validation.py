"""Validation of queries on Spark's own plans, by the lists in `recall.sandbox.allowlist`.

First the query is parsed, and anything but a plain query is rejected before any name in it is
looked up, because looking up has effects (`EXECUTE IMMEDIATE` would run). Then it is analysed in a
session that has only the views that it may read. Every node, function and table of the analysed
plan must be allowed.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from typing import Any

import orjson
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
    INTERNAL_FORBIDDEN_PARTS,
    INTERNAL_NODES,
    INTERNAL_UNORDERED_AGGREGATES,
    PARSED_NODES,
)
from recall.sandbox.plan_parts import (
    AnalysedQuery,
    PlanPart,
    TextConversion,
    read_analysed,
    read_parsed,
)
from recall.sandbox.rejection import from_java_error, from_spark_error, line_and_column
from recall.sandbox.time_limit import run_with_limit

_CPU_LIMIT = 20.0  # seconds for the analysis of one query, or of one batch
_BATCH_SIZE = 64  # queries
_MAX_COLUMN_LISTS = 256  # that are cached: queries of one shape have the same

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

    def validate() -> StructType:
        (parsed,) = read_parsed(session, [sql])
        if parsed is None:
            session._jsparkSession.sessionState().sqlParser().parsePlan(sql)  # raises
            raise QueryRejected("Spark cannot parse the query")
        _check_parsed(parsed, internal)
        (analysed,) = read_analysed(session, [sql])
        if analysed is None:
            session.sql(sql)  # raises
            raise QueryRejected("Spark cannot analyse the query")
        return _check_analysed(analysed, sql, internal)

    try:
        return run_with_limit(validate, session, _CPU_LIMIT)
    except PySparkException as error:
        raise from_spark_error(error, sql) from error
    except SPARK_LOST:
        raise
    except Py4JError as error:
        raise from_java_error(error) from error


class QueryValidator:
    """Validates queries that users wrote over the views of one hardened session."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._columns: dict[str, StructType] = {}

    def prepare(self, queries: Iterable[str]) -> None:
        """Validate many queries by few calls, so that `validate` is quick for those that pass."""
        remaining = iter(queries)
        while batch := list(islice(remaining, _BATCH_SIZE)):
            # A query whose analysis never ends is found when each is validated alone.
            with suppress(QueryRejected, PySparkException, Py4JError):
                run_with_limit(partial(self._validate_batch, batch), self._session, _CPU_LIMIT)

    def validate(self, sql: str) -> StructType:
        """The columns of a query. Raises `QueryRejected`."""
        if sql not in self._columns:
            self._columns[sql] = validate_query(self._session, sql)
        return self._columns[sql]

    def _validate_batch(self, queries: Sequence[str]) -> None:
        allowed: list[str] = []
        for sql, parsed in zip(queries, read_parsed(self._session, queries), strict=True):
            with suppress(QueryRejected):
                if parsed is not None:
                    _check_parsed(parsed, internal=False)
                    allowed.append(sql)
        for sql, analysed in zip(allowed, read_analysed(self._session, allowed), strict=True):
            with suppress(QueryRejected):
                if analysed is not None:
                    self._columns[sql] = _check_analysed(analysed, sql, internal=False)


# The parsed plan

_PLACEHOLDERS = {
    "NamedParameter": "a parameter without a value, such as :name,",
    "PosParameter": "a parameter without a value, ?,",
}


def _check_parsed(parts: Iterable[PlanPart], internal: bool) -> None:
    allowed_nodes, forbidden_parts = PARSED_NODES, FORBIDDEN_PARTS
    if internal:
        allowed_nodes |= INTERNAL_NODES
        forbidden_parts = INTERNAL_FORBIDDEN_PARTS
    for part in parts:
        _check_size(part)
        if part.kind == "node" and part.name not in allowed_nodes:
            raise _not_allowed(_display_name(part.name))
        if part.kind == "function" and part.function.lower() in DROPPED_FUNCTIONS:
            raise _not_allowed(part.function.lower())
        if part.name in forbidden_parts:
            raise _not_allowed(_display_name(part.name))


def _check_size(part: PlanPart) -> None:
    if part.kind == "size":
        raise QueryRejected(f"the plan of the query has more than {part.name} nodes")


def _display_name(name: str) -> str:
    """The name of one of Spark's classes as users may know it."""
    if name in _PLACEHOLDERS:
        return _PLACEHOLDERS[name]
    return name.removeprefix("Unresolved").removesuffix("$")


def _not_allowed(name: str) -> QueryRejected:
    return QueryRejected(f"{name} is not allowed in a query")


# The analysed plan


def _check_analysed(query: AnalysedQuery, sql: str, internal: bool) -> StructType:
    allowlist = _INTERNAL_ALLOWLIST if internal else _USER_ALLOWLIST
    conversions: list[TextConversion] = []
    for part in query.parts:
        if isinstance(part, TextConversion):
            conversions.append(part)
        else:
            _check_part(part, allowlist)
    if not internal:
        for conversion in conversions:
            _check_conversion(conversion, sql)
    return _to_struct_type(query.columns)


def _check_part(part: PlanPart, allowlist: Allowlist) -> None:
    _check_size(part)
    if part.kind == "foreign view" or (part.kind == "node" and part.name not in allowlist.nodes):
        raise _not_allowed(_display_name(part.name))
    if part.kind == "undetermined" and part.name not in allowlist.unordered:
        raise QueryRejected(
            f"{part.function}() is not deterministic: live and replayed results would differ"
        )
    if part.kind == "expression" and part.name not in allowlist.expressions:
        raise _not_allowed(part.function)


def _check_conversion(conversion: TextConversion, sql: str) -> None:
    """Reject comparisons of a number with text that is not a number: evaluation fails."""
    is_comparison = conversion.parent in _COMPARISONS
    if not is_comparison or not conversion.target_type.startswith(_NUMERIC_TYPES):
        return
    if conversion.text is not None and _is_number(conversion.text):
        return
    if conversion.start is None or conversion.stop is None:
        raise QueryRejected(f"compares a number with text: {conversion.sql}")
    fragment = sql[conversion.start : conversion.stop + 1]
    line, column = line_and_column(sql, conversion.start)
    raise QueryRejected(f"compares a number with text: {fragment}", line, column, fragment)


def _is_number(text: str) -> bool:
    """Whether text can be compared with numbers."""
    try:
        float(text)
    except ValueError:
        return False
    return True


@lru_cache(_MAX_COLUMN_LISTS)
def _to_struct_type(columns: str) -> StructType:
    return StructType.fromJson(orjson.loads(columns))
