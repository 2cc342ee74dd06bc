"""Records of JSON, with the NaN and infinities that Python and JavaScript write. No I/O."""

import json
import math
import re
from contextlib import suppress
from typing import Any, cast

import orjson

from archiver.errors import InvalidValue
from archiver.formats import name_positions

# Before a record of RFC 7464, as `journalctl -o json-seq` writes it, and before one of a file that
# others were joined to.
_MARKS = (b"\x1e", b"\xef\xbb\xbf")
_CONSTANT = re.compile(rb"\b(?:NaN|Infinity)\b")
_MAX_EXACT = 2.0**63  # integers below it are parsed exactly
_WIDE_INTEGER_MESSAGE = "Integer exceeds 64-bit range"  # of orjson, when it serialises


def parse_json(record: bytes, *, has_positions: bool = False) -> dict[str, Any]:
    """The fields of a JSON object. Raises `InvalidValue`.

    `has_positions`: also those of an array, whose names are their positions.
    """
    try:
        value = orjson.loads(record)
    except orjson.JSONDecodeError as error:
        unmarked = without_marks(record)
        if len(unmarked) < len(record):
            return parse_json(unmarked, has_positions=has_positions)
        value = _parse_constants(record)
        if value is None:
            raise InvalidValue(_describe_json_error(error, record)) from error
    if has_positions and type(value) is list:
        value = name_positions(value)
    if type(value) is not dict:
        raise InvalidValue("the line is not a JSON object")
    if b"[" in record or record.count(b"{") > 1:
        try:
            orjson.dumps(value)
        except TypeError as error:  # deeper than orjson can serialise into `_extra`
            if not str(error).startswith(_WIDE_INTEGER_MESSAGE):
                raise InvalidValue("the JSON object is nested too deeply") from error
    if _has_wide_number(value):
        exact = _with_wide_integers(value, record)
        return name_positions(exact) if type(exact) is list else cast(dict[str, Any], exact)
    return value


def _has_wide_number(value: Any) -> bool:
    """Whether a value holds a float that may be an integer of more than 64 bits."""
    for item in value.values() if type(value) is dict else value:
        kind = type(item)
        if kind is float:
            if not -_MAX_EXACT < item < _MAX_EXACT and math.isfinite(item):
                return True
        elif (kind is dict or kind is list) and _has_wide_number(item):
            return True
    return False


def _with_wide_integers(value: Any, record: bytes) -> Any:
    """The value of a JSON text, in which integers have all their digits. `value`: rounded."""
    try:
        return json.loads(without_marks(record), parse_float=_parse_float)
    except (ValueError, RecursionError):  # more digits than Python reads
        return value


def without_marks(record: bytes) -> bytes:
    """A record without the separator or byte order mark before it."""
    for mark in _MARKS:
        record = record.removeprefix(mark)
    return record


def _parse_constants(record: bytes) -> Any:
    """The value of a text that is JSON but for NaN and infinities; None if it is not."""
    if _CONSTANT.search(record) is None:
        return None
    try:
        value = json.loads(record.decode("utf-8"), parse_float=_parse_float)
        # What orjson refuses is refused here, too: lone surrogates.
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, TypeError, RecursionError):
        return None
    return value


def _parse_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError("out of range")
    return number


def load_json(content: bytes) -> Any:
    """The value of a JSON text with NaN and infinities. Raises `ValueError`."""
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError:
        value = _parse_constants(content)
        if value is None:
            raise
        return value
    if isinstance(value, dict | list) and _has_wide_number(value):
        return _with_wide_integers(value, content)
    return value


def dump_json(value: Any, *, sort_keys: bool = False) -> bytes:
    """A value as JSON with NaN and infinities, in the order of its fields or of their names."""
    if not _has_constants(value):
        with suppress(TypeError):  # an integer of more than 64 bits
            return orjson.dumps(value, option=orjson.OPT_SORT_KEYS if sort_keys else None)
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=sort_keys)
    return text.encode()


def _has_constants(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, dict):
        return any(map(_has_constants, value.values()))
    return isinstance(value, list) and any(map(_has_constants, value))


def to_json(value: Any) -> str:
    """A value as JSON with sorted keys; NaN and infinities are texts."""
    spelled = _spell_constants(value)
    try:
        return orjson.dumps(spelled, option=orjson.OPT_SORT_KEYS).decode()
    except TypeError:  # an integer of more than 64 bits
        return json.dumps(spelled, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def spell_float(number: float) -> str:
    """NaN and infinities as texts; others as JSON."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return orjson.dumps(number).decode()


def _spell_constants(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else spell_float(value)
    if isinstance(value, dict):
        return {name: _spell_constants(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_spell_constants(inner) for inner in value]
    return value


def _describe_json_error(error: orjson.JSONDecodeError, record: bytes) -> str:
    """The fact and the column, without the characters that the parser expected instead."""
    try:
        record.decode("utf-8")
    except UnicodeDecodeError:
        return "not UTF-8 text"
    if error.msg.startswith("number is infinity"):
        return f"a number is out of range for type double in column {error.colno}"
    return f"not JSON: {error.msg.partition(',')[0]} in column {error.colno}"
