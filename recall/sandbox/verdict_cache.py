"""Verdicts on queries that differ only in constants on which no verdict can depend.

One of such queries is validated in full, and its verdict holds for the others.

A constant is *free* if it is a whole side of a comparison (= <> < <= > >=) that, through AND, OR
and NOT alone, makes up a WHERE or HAVING clause of the query as Spark's own parser reads it. A free
constant names no column and is no part of the result; no function that the analyser evaluates reads
it; and no group equals it or an expression of it (`_cannot_match_constants`). What the analyser
makes of it depends on its type and number of digits, and stays a comparison as long as numbers are
within the range of `bigint` (`_constant_type`).

A query is equivalent to a validated one if all else is equal letter for letter, and each free
constant is one token of the same kind, with the same sign, type and number of digits. Then Spark's
lexer finds the same tokens, its parser the same tree, and its analyser the same types. Strings that
are numbers, which may be compared with numbers, and all other constants, such as patterns, formats,
intervals and arguments of functions, must be equal.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from recall.sandbox import validation
from recall.sandbox.spark_plan import (
    class_name,
    expressions_of,
    iterate_scala,
    text_span,
    walk_plan,
)

_CONSTANT = re.compile(r"'[^'\\]*'|-?[0-9]+(?:\.[0-9]+)?")
_MAX_CONSTANT_LENGTH = 30  # characters of a number; longer ones are too large for any type

# Digits before the point with which a fraction is surely within `bigint`. Beyond that the analyser
# itself decides comparisons of integers with fractions, and drops their operands.
_MAX_INTEGER_DIGITS = 18

# A query is compared with at most this many validated ones: if constants are not free, it is
# not equivalent to any.
_MAX_COMPARED_QUERIES = 8

_LOGICAL_OPERATORS = frozenset(("And", "Or", "Not"))
_COMPARISONS = frozenset(
    ("EqualTo", "LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual")
)
_ALIASES = frozenset(("Alias", "UnresolvedAlias"))
_NEITHER_CONSTANT_NOR_CONDITION = frozenset(
    ("UnresolvedAttribute", "Add", "Subtract", "Multiply", "Divide", "Cast")
)

# A range of characters in a query's text.
_Span = tuple[int, int]


class VerdictCache:
    """Validates queries over the views of one hardened session, which must not change."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        # Validated queries by their text without constants.
        self._validated: dict[tuple[str, ...], list[_ValidatedQuery]] = {}
        self._columns_by_sql: dict[str, StructType] = {}

    def validate(self, sql: str) -> StructType:
        """The columns of a query that a user wrote. Raises `QueryRejected`."""
        if not sql.isascii():
            # Spark may count characters differently.
            return validation.validate_query(self._session, sql)
        if sql not in self._columns_by_sql:
            self._columns_by_sql[sql] = self._columns(sql)
        return self._columns_by_sql[sql]

    def _columns(self, sql: str) -> StructType:
        candidates = self._validated.setdefault(tuple(_CONSTANT.split(sql)), [])
        for candidate in candidates[-_MAX_COMPARED_QUERIES:]:
            if candidate.covers(sql):
                return candidate.columns
        columns = validation.validate_query(self._session, sql)
        candidates.append(_ValidatedQuery(self._session, sql, columns))
        return columns


@dataclass
class _ValidatedQuery:
    """A query that passed validation, and its columns."""

    session: SparkSession
    sql: str
    columns: StructType

    def covers(self, sql: str) -> bool:
        """Whether a query with the same text between its constants must pass as well."""
        constants = _CONSTANT.findall(sql)
        different_constants = set()
        for index, own_constant in enumerate(_CONSTANT.findall(self.sql)):
            if own_constant == constants[index]:
                continue
            if not _have_same_type(own_constant, constants[index]):
                return False
            different_constants.add(index)
        return different_constants <= self._free_constants

    @cached_property
    def _free_constants(self) -> frozenset[int]:
        """The indexes, among all constants, of the free ones."""
        parser = self.session._jsparkSession.sessionState().sqlParser()
        free_spans = set(_free_constant_spans(parser.parsePlan(self.sql)))
        indexes = set()
        for index, match in enumerate(_CONSTANT.finditer(self.sql)):
            if match.span() in free_spans:
                indexes.add(index)
        return frozenset(indexes)


# Types of constants


def _have_same_type(first: str, second: str) -> bool:
    constant_type = _constant_type(first)
    return constant_type is not None and constant_type == _constant_type(second)


def _constant_type(constant: str) -> tuple[str, int, int] | None:
    """What the analyser may see of a constant: its type, digits and exponent.

    None: it cannot be told, so the constant is equivalent to no other.
    """
    if constant.startswith("'"):
        if validation.is_number(constant[1:-1]):
            return None
        return "string", 0, 0
    if len(constant) > _MAX_CONSTANT_LENGTH:
        return None
    sign = "-" if constant.startswith("-") else ""
    if "." not in constant:
        number = int(constant)
        for bits in (31, 63):
            if -(1 << bits) <= number < 1 << bits:
                return f"{sign}{bits}", len(str(abs(number))), 0
        return None
    _, digits, exponent = Decimal(constant).as_tuple()
    if len(digits) + int(exponent) > _MAX_INTEGER_DIGITS:
        return None
    return f"{sign}decimal", len(digits), int(exponent)


# Free constants


def _free_constant_spans(root: Any) -> Iterator[_Span]:
    """Where in the text of a parsed query its free constants are."""
    for plan in walk_plan(root):
        if class_name(plan) not in ("Filter", "UnresolvedHaving"):
            continue
        if _cannot_match_constants(plan):
            for condition in expressions_of(plan):
                yield from _free_spans_in(condition)


def _cannot_match_constants(plan: Any) -> bool:
    """Whether no group or output can equal a constant of this WHERE or HAVING.

    HAVING looks for its parts among groups and outputs.
    """
    input_plan = plan.child()
    if class_name(input_plan) != "Aggregate":
        return class_name(plan) == "Filter"
    return all(map(_is_neither_constant_nor_condition, expressions_of(input_plan)))


def _is_neither_constant_nor_condition(output: Any) -> bool:
    """Whether a group or output is surely neither a constant nor a condition."""
    while class_name(output) in _ALIASES:
        output = output.child()
    name = class_name(output)
    if name == "UnresolvedFunction":
        return _has_function_name(output)
    return name in _NEITHER_CONSTANT_NOR_CONDITION


def _has_function_name(function: Any) -> bool:
    """Whether a function is not an operator, which can be called by its name in backquotes."""
    name = str(function.nameParts().last())
    return name.isidentifier() and name.lower() not in ("and", "or", "not")


def _free_spans_in(condition: Any) -> Iterator[_Span]:
    name = class_name(condition)
    if name in _LOGICAL_OPERATORS:
        for operand in iterate_scala(condition.children()):
            yield from _free_spans_in(operand)
    elif name in _COMPARISONS:
        for side in iterate_scala(condition.children()):
            if class_name(side) != "Literal":
                continue
            span = text_span(side)
            if span is not None:
                yield span
