"""Numbers from decimal texts and JSON: integers exactly or not at all, floats as the nearest value.

A text is a number if it is a decimal one, as in JSON, but for blanks around it, a plus sign,
leading zeros, and a missing digit before or after the point. `1e3` and `95.0` are integers.
"""

import json
import math
import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from archiver.delta import ARROW_TYPES
from archiver.errors import InvalidValue
from archiver.formats import find_value, name_positions
from archiver.ingest.decoding.invalid_value import abbreviate
from archiver.ingest.decoding.json_records import without_marks

# Values of an integer type are at least -limit and below limit.
INT_LIMITS = {"int": 2**31, "bigint": 2**63}

_MAX_INT_DIGITS = 19  # decimal digits of the largest bigint
_MIN_WIDE_INTEGER = 2.0**63  # integers in JSON that the parser returns as floats are not below it
_MAX_EXPONENT_DIGITS = 7  # more digits of an exponent mean a number of millions of digits
_DECIMAL = re.compile(
    r"(?P<sign>[+-]?)(?:(?P<whole>[0-9]+)(?:\.(?P<part>[0-9]*))?|\.(?P<only_part>[0-9]+))"
    r"(?:[eE](?P<exponent_sign>[+-]?)(?P<exponent>[0-9]+))?"
)
_NOT_FINITE = re.compile(r"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)

# Texts that Arrow converts as `to_integer` and `to_float` do, unless they are out of range. Columns
# with other texts (exponents of integers, plus signs, …) are converted value by value.
_PLAIN_INTEGER = r"^-?[0-9]{1,19}$"
_PLAIN_DECIMAL = r"^-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?$"

# A float64 halfway between two neighbouring float32, above the subnormal ones, ends in these bits.
_HALFWAY_MASK = (1 << 29) - 1
_HALFWAY_BITS = 1 << 28
_MIN_NORMAL_FLOAT32 = 2.0**-126


class JsonNumber(str):
    """The text of a number in JSON, which may have more digits than a float."""

    __slots__ = ()
    __repr__ = str.__str__


def number_in_json(line: bytes, field: str) -> JsonNumber | float:
    """The text of a number in a field of a valid JSON record; NaN and infinities as they are."""
    record = json.loads(without_marks(line), parse_float=JsonNumber, parse_int=JsonNumber)
    if isinstance(record, list):
        record = name_positions(record)
    number: JsonNumber | float = find_value(record, field)
    return number


def needs_text(value: object, kind: str) -> bool:
    """Whether a value parsed from JSON has lost digits that the declared type may need."""
    if type(value) is not float or not math.isfinite(value):
        return False
    if kind == "string":
        return abs(value) >= _MIN_WIDE_INTEGER
    return kind in INT_LIMITS or (kind == "float" and bool(_is_rounded_twice(np.array(value))))


def is_integer_text(number: JsonNumber) -> bool:
    """Whether a number in JSON is written as an integer: all its digits count, as in an ID."""
    return number.removeprefix("-").isdecimal()


def to_integer(value: Any, kind: str) -> int:
    """An integer of a declared type, exactly. Raises `InvalidValue`."""
    number = _integer_from_text(value) if isinstance(value, str) else value
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    if type(number) is not int:
        raise InvalidValue(f"{abbreviate(value)} is not an integer")
    if not -INT_LIMITS[kind] <= number < INT_LIMITS[kind]:
        raise _out_of_range(value, kind)
    return number


def to_float(value: Any, kind: str) -> float:
    """The nearest value of a floating-point type. Raises `InvalidValue`, also on overflow."""
    if isinstance(value, str):
        text = value.strip()
        if _NOT_FINITE.fullmatch(text):
            return float(text)
        if not _DECIMAL.fullmatch(text):
            raise InvalidValue(f"{abbreviate(value)} is not a number")
        number = _to_single(text) if kind == "float" else float(text)
    elif isinstance(value, float):
        if not math.isfinite(value):
            return value
        number = _round_to_single(value) if kind == "float" else value
    elif isinstance(value, int) and not isinstance(value, bool):
        number = _to_single(str(value)) if kind == "float" else float(value)
    else:
        raise InvalidValue(f"{abbreviate(value)} is not a number")
    if not math.isfinite(number):
        raise _out_of_range(value, kind)
    return number


def numbers_from_texts(texts: pa.Array, kind: str) -> pa.Array | None:
    """Texts as numbers; None if they are to be converted one by one. Raises `ArrowInvalid`, too."""
    is_integer = kind in INT_LIMITS
    plain = _PLAIN_INTEGER if is_integer else _PLAIN_DECIMAL
    if pc.all(pc.match_substring_regex(texts, plain)).as_py() is False:
        return None
    numbers = pc.cast(texts, ARROW_TYPES[kind])
    if is_integer or pc.all(pc.is_finite(numbers)).as_py() is not False:
        return numbers
    return None


def numbers_from_floats(values: pa.Array, kind: str) -> pa.Array | None:
    """Numbers of JSON, parsed as float64, as floats; None if they are to be converted one by one."""
    numbers = values.drop_null().to_numpy()
    if kind == "float" and _is_rounded_twice(numbers).any():
        return None
    converted = values.cast(ARROW_TYPES[kind], safe=False)
    return converted if pc.all(pc.is_finite(converted)).as_py() is not False else None


def _is_rounded_twice(numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Mask of numbers whose float32 may differ from that of the decimal text they are parsed from.

    Rounding to float64 has moved such a text to where the next rounding is a tie.
    """
    is_halfway = (numbers.view(np.int64) & _HALFWAY_MASK) == _HALFWAY_BITS
    is_subnormal = (np.abs(numbers) < _MIN_NORMAL_FLOAT32) & (numbers != 0)
    return np.asarray(is_halfway | is_subnormal)


def _integer_from_text(text: str) -> int | None:
    """The integer that a decimal text denotes; None if it has a fraction."""
    match = _DECIMAL.fullmatch(text.strip())
    if match is None:
        raise InvalidValue(f"{abbreviate(text)} is not a number")
    part = match["only_part"] or match["part"] or ""
    digits = ((match["whole"] or "") + part).lstrip("0")
    significant = digits.rstrip("0")
    if not significant:
        return 0
    trailing_zeros = len(digits) - len(significant) - len(part) + _exponent(match)
    if trailing_zeros < 0:
        return None
    # One digit more than fits stands for any larger number.
    zeros = min(trailing_zeros, _MAX_INT_DIGITS + 1)
    number = int(significant[: _MAX_INT_DIGITS + 1] + "0" * zeros)
    return -number if match["sign"] == "-" else number


def _exponent(match: re.Match[str]) -> int:
    """The exponent of ten; one of very many digits is bounded."""
    digits = (match["exponent"] or "0").lstrip("0")[: _MAX_EXPONENT_DIGITS + 1]
    exponent = int(digits or "0")
    return -exponent if match["exponent_sign"] == "-" else exponent


def _to_single(text: str) -> float:
    """The float32 nearest to a decimal text; infinite on overflow."""
    double = float(text)
    if _is_rounded_twice(np.array(double)):
        single: float = pc.cast(pa.scalar(text), pa.float32()).as_py()
        return single
    return _round_to_single(double)


def _round_to_single(double: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(double))


def _out_of_range(value: object, kind: str) -> InvalidValue:
    return InvalidValue(f"{abbreviate(value)} is out of range for type {kind}")
