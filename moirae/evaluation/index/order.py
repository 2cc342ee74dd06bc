"""Comparisons of numbers and texts as Spark orders them, and constants. No I/O."""

import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from sqlglot import exp

from moirae.evaluation.index.anchors import Anchor, Necessary
from moirae.evaluation.index.values import NUMBERS, Value, constant_value
from recall.errors import SparkRequired
from recall.query.plain import literal_type

_NUMBER_READERS: dict[str, Callable[[str], Any]] = {
    "int": int,
    "bigint": int,
    "double": float,
    "decimal": Decimal,
}
OPPOSITES = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
# NaN equals itself in Spark and is greater than any other number. A constant is never NaN: so
# what NaN is not less than or equal to is less.
ORDER_TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": lambda value, constant: not value <= constant,
    ">=": lambda value, constant: not value < constant,
}


def parse_literal(node: exp.Literal, sign: str) -> Value:
    """A constant; `sign`: before its text. Raises `SparkRequired`."""
    constant_type = literal_type(node, sign)
    if constant_type == "string":
        return constant_value(node.this, "string")
    return constant_value(_NUMBER_READERS[constant_type](sign + node.this), constant_type)


def common_number(value: Value, constant: Value) -> tuple[Callable[[Any], Any] | None, Any]:
    """How a value is converted to be compared with a constant, and the constant converted.

    Raises `SparkRequired`.
    """
    if value.type not in NUMBERS or constant.type not in (*NUMBERS, "decimal"):
        raise SparkRequired("comparison of values of different types")
    if value.type == "double":
        return None, float(constant.constant)
    if constant.type == "double":
        return float, constant.constant
    return None, constant.constant


def bound_anchor(value: Value, sign: str, bound: Any) -> Necessary:
    """What is necessary for a comparison of a value with a constant."""
    if not value.is_raw or value.column is None or value.type not in NUMBERS or sign == "<>":
        return None
    if sign == "=":
        if value.type != "double" and int(bound) != bound:
            return None
        return Anchor(value.column, "number", bound if value.type == "double" else int(bound))
    return Anchor(value.column, "above" if sign.startswith(">") else "below", float(bound))
