"""Queries that are alike pass the gate as one: one of them is judged in full, and stands for those that differ from it
in constants on which no verdict can depend.

Such a constant is a whole side of a comparison (= <> < <= > >=) that, by AND, OR and NOT alone, makes a WHERE or HAVING
of the query as Spark's own parser read it. It names no column, makes no part of the result, no function that the
analyser computes reads it, and no group is equal to it or to what is made of it (`_free`): what the analyser makes of
it hangs on its type and number of digits, and is a comparison again, as long as numbers are within the range of
`bigint` (`_LONG`). Two texts are alike where all else is equal letter
for letter and each such constant is one word of the same kind, with the same sign, type and number of digits (`_kind`):
then Spark's lexer finds the same words, its parser the same tree, and its analyser the same types. Texts that are
numbers, which may be compared with numbers, and all other constants, as patterns, formats, intervals and arguments of
functions, must be the same.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from recall.sandbox import sandbox as gate

_CONSTANT = re.compile(r"'[^'\\]*'|-?[0-9]+(?:\.[0-9]+)?")
# Characters of a number; longer ones are too large for a type anyway.
_MAX_CONSTANT_LENGTH = 30
# Digits of a fraction before the point, with which it surely lies within `bigint`: the analyser itself decides
# comparisons of whole numbers with others, and drops what they were made of.
_MAX_INTEGER_DIGITS = 18
# A text is held against so many of those that passed: where constants are not free it is like none of them.
_MAX_COMPARED_QUERIES = 8
_LOGICAL_OPERATORS = frozenset("And Or Not".split())
_COMPARISONS = frozenset("EqualTo LessThan LessThanOrEqual GreaterThan GreaterThanOrEqual".split())
_ALIASES = frozenset("Alias UnresolvedAlias".split())
_NEITHER_CONSTANT_NOR_CONDITION = frozenset(
    "UnresolvedAttribute UnresolvedFunction Add Subtract Multiply Divide Cast".split()
)

_Span = tuple[int, int]


@dataclass
class _ValidatedQuery:
    """A query that passed, and its columns."""

    session: SparkSession
    sql: str
    columns: StructType

    def covers(self, sql: str) -> bool:
        """Whether a query that is the same between its constants must pass, too."""
        pairs = zip(_CONSTANT.findall(self.sql), _CONSTANT.findall(sql), strict=True)
        differ = {place: pair for place, pair in enumerate(pairs) if pair[0] != pair[1]}
        return (
            all(_have_same_type(*pair) for pair in differ.values())
            and differ.keys() <= self._free_constants
        )

    @cached_property
    def _free_constants(self) -> frozenset[int]:
        """The places, among all constants, of the free ones."""
        spans = set(
            _free_constant_spans(
                self.session._jsparkSession.sessionState().sqlParser().parsePlan(self.sql)
            )
        )
        return frozenset(
            place for place, one in enumerate(_CONSTANT.finditer(self.sql)) if one.span() in spans
        )


class VerdictCache:
    """The gate over the views of one `guarded` session, which stay as they are meanwhile."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._validated: dict[tuple[str, ...], list[_ValidatedQuery]] = {}
        self._columns_by_sql: dict[str, StructType] = {}

    def validate(self, sql: str) -> StructType:
        """As `gate.judge`, of a query that somebody wrote."""
        if not sql.isascii():  # Spark may count letters otherwise
            return gate.validate_query(self._session, sql)
        if sql in self._columns_by_sql:
            return self._columns_by_sql[sql]
        alike = self._validated.setdefault(tuple(_CONSTANT.split(sql)), [])
        found = next(
            (passed for passed in alike[-_MAX_COMPARED_QUERIES:] if passed.covers(sql)), None
        )
        if found is None:
            found = _ValidatedQuery(self._session, sql, gate.validate_query(self._session, sql))
            alike.append(found)
        self._columns_by_sql[sql] = found.columns
        return found.columns


def _have_same_type(one: str, other: str) -> bool:
    kind = _constant_type(one)
    return kind is not None and kind == _constant_type(other)


def _constant_type(constant: str) -> tuple[str, int, int] | None:
    """What the analyser may ask of a constant: its type, and the digits of a number; None: more than can be told."""
    if constant.startswith("'"):
        return None if gate.is_number(constant[1:-1]) else ("string", 0, 0)
    if len(constant) > _MAX_CONSTANT_LENGTH:
        return None
    sign = constant[: constant.startswith("-")]
    if "." not in constant:
        number = int(constant)
        bits = next((bits for bits in (31, 63) if -(1 << bits) <= number < 1 << bits), None)
        return None if bits is None else (f"{sign}{bits}", len(str(abs(number))), 0)
    _, digits, exponent = Decimal(constant).as_tuple()
    if len(digits) + int(exponent) > _MAX_INTEGER_DIGITS:
        return None
    return f"{sign}decimal", len(digits), int(exponent)


def _free_constant_spans(root: Any) -> Iterator[_Span]:
    """Where in the text the free constants of a parsed query stand."""
    for plan in gate.walk_plan(root):
        if gate.class_name(plan) in ("Filter", "UnresolvedHaving") and _cannot_match_constants(
            plan
        ):
            for condition in gate.iterate_scala(plan.expressions()):
                yield from _free_spans_in(condition)


def _cannot_match_constants(plan: Any) -> bool:
    """Whether WHERE or HAVING, the latter of which looks for its parts among groups and outputs, cannot find there what
    is made of constants."""
    below = plan.child()
    if gate.class_name(below) != "Aggregate":
        return gate.class_name(plan) == "Filter"
    return all(map(_is_neither_constant_nor_condition, gate.iterate_scala(below.expressions())))


def _is_neither_constant_nor_condition(output: Any) -> bool:
    """Whether a group or output is surely neither a constant nor a condition."""
    while gate.class_name(output) in _ALIASES:
        output = output.child()
    name = gate.class_name(output)
    # Operators have functions of their name too, written in backquotes.
    return name in _NEITHER_CONSTANT_NOR_CONDITION and (
        name != "UnresolvedFunction" or _has_function_name(output)
    )


def _has_function_name(function: Any) -> bool:
    name = str(function.nameParts().last())
    return name.isidentifier() and name.lower() not in ("and", "or", "not")


def _free_spans_in(condition: Any) -> Iterator[_Span]:
    name = gate.class_name(condition)
    for side in (
        gate.iterate_scala(condition.children())
        if name in _LOGICAL_OPERATORS | _COMPARISONS
        else ()
    ):
        if name in _LOGICAL_OPERATORS:
            yield from _free_spans_in(side)
        elif gate.class_name(side) == "Literal":
            start, stop = (
                getattr(side.origin(), end)().getOrElse(None) for end in ("startIndex", "stopIndex")
            )
            if start is not None and stop is not None:
                yield start, stop + 1
