"""Decode lines of JSON or CSV to typed columns, refusing each invalid line separately. No I/O."""

import csv
import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, date, datetime
from operator import attrgetter
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from archiver.delta import ARROW_TYPES, StreamSchema
from archiver.errors import ArchiverError
from archiver.times import Micros, to_micros

LineFormat = Literal["jsonl", "csv"]
RefusalReason = Literal["malformed", "quarantined", "conflict", "expired"]

# Longer lines are refused, so that one line can neither stall the stream nor exhaust the memory.
MAX_LINE_BYTES = 1 << 20  # bytes

# Values of an integer type are at least -limit and below limit.
INT_LIMITS = {"int": 2**31, "bigint": 2**63}

# Bounds of event times: leaves room for time arithmetic without overflow.
MIN_EVENT_TIME = -2208988800  # 1900-01-01T00:00:00Z, in seconds since 1970
MAX_EVENT_TIME = 253402300799  # 9999-12-31T23:59:59Z, in seconds since 1970

_MAX_DETAIL_LENGTH = 200  # characters of an error message
_MAX_QUOTED_LENGTH = 60  # characters of a value quoted in an error message


@dataclass(frozen=True)
class RefusedLine:
    """A line that is not archived: its number in the unit, the reason, and its bytes."""

    line: int
    reason: RefusalReason
    detail: str
    raw: bytes


@dataclass(frozen=True)
class DecodedRows:
    """Typed rows of a batch of lines, and the lines that were refused.

    `table`: the declared columns and `_extra`, the undeclared fields as a JSON object.
    `line_numbers` and `raw`: the number and the bytes of each row's line.
    """

    table: pa.Table
    line_numbers: npt.NDArray[np.int64]
    raw: Sequence[bytes]
    refused_lines: list[RefusedLine]


class _InvalidValue(ArchiverError, ValueError):
    """A line or value that cannot be decoded."""


def decode_lines(
    schema: StreamSchema,
    line_format: LineFormat,
    lines: Sequence[bytes],
    first: int,
    header: Sequence[str] = (),
) -> DecodedRows:
    """Decode the non-blank `lines` of one unit, numbered from `first`.

    `header`: the field names of CSV lines.
    """
    records, refused = _parse_records(line_format, lines, first, header)
    rows = []
    raw = []
    positions = []
    for position, record in enumerate(records):
        if record is not None:
            rows.append(record)
            raw.append(lines[position])
            positions.append(position)
    numbers = first + np.array(positions, np.int64)
    columns, errors = _convert_columns(schema, rows)
    table = pa.table({**columns, "_extra": _extra_column(schema, rows)})
    if errors:
        for index, detail in errors.items():
            refused.append(RefusedLine(int(numbers[index]), "malformed", detail, raw[index]))
        valid = [index for index in range(len(rows)) if index not in errors]
        table = table.take(pa.array(valid, pa.int64()))
        numbers = numbers[valid]
        raw = list(map(raw.__getitem__, valid))
    return DecodedRows(table, numbers, raw, sorted(refused, key=attrgetter("line")))


def parse_csv_header(line: bytes) -> list[str]:
    """The field names in the first line of a CSV file. Raises `ValueError` if it is invalid."""
    try:
        names = next(csv.reader([line.decode("utf-8")], strict=True))
    except csv.Error as error:
        raise ValueError(str(error)) from error
    if len(set(names)) != len(names):
        raise ValueError("duplicate field name in the CSV header")
    return [name.strip() for name in names]


def _parse_records(
    line_format: LineFormat, lines: Sequence[bytes], first: int, header: Sequence[str]
) -> tuple[list[dict[str, Any] | None], list[RefusedLine]]:
    """The fields of each line, None for a refused one; and the refused lines."""
    parse = _parse_json if line_format == "jsonl" else _csv_parser(header)
    records: list[dict[str, Any] | None] = []
    refused: list[RefusedLine] = []
    for number, line in enumerate(lines, first):
        try:
            if len(line) > MAX_LINE_BYTES:
                raise _InvalidValue(
                    f"the line is {len(line)} bytes long, the limit is {MAX_LINE_BYTES}"
                )
            records.append(parse(line))
        except (ValueError, csv.Error) as error:
            records.append(None)
            detail = str(error)[:_MAX_DETAIL_LENGTH]
            refused.append(RefusedLine(number, "malformed", detail, line[:MAX_LINE_BYTES]))
    return records, refused


def _parse_json(line: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise _InvalidValue(_describe_json_error(error, line)) from error
    if type(value) is not dict:
        raise _InvalidValue("the line is not a JSON object")
    if b"[" in line or line.count(b"{") > 1:
        try:
            orjson.dumps(value)
        except TypeError as error:  # deeper than orjson can serialise into `_extra`
            raise _InvalidValue("the JSON object is nested too deeply") from error
    return value


def _describe_json_error(error: orjson.JSONDecodeError, line: bytes) -> str:
    """The fact and the column, without the characters that the parser expected instead."""
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return "not UTF-8 text"
    return f"not JSON: {error.msg.partition(',')[0]} in column {error.colno}"


def _csv_parser(header: Sequence[str]) -> Callable[[bytes], dict[str, Any]]:
    width = len(header)

    def parse(line: bytes) -> dict[str, Any]:
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise _InvalidValue("not UTF-8 text") from error
        # Splitting is much faster than csv.reader, with the same result for lines without quotes.
        fields = text.split(",") if '"' not in text else next(csv.reader([text], strict=True))
        if len(fields) != width:
            raise _InvalidValue(f"the line has {len(fields)} fields, the header has {width}")
        # An empty field is a null.
        return {name: field or None for name, field in zip(header, fields, strict=True)}

    return parse


def _extra_column(schema: StreamSchema, rows: list[dict[str, Any]]) -> pa.Array:
    declared = schema.columns.keys()
    return pa.array([_undeclared_fields(row, declared) for row in rows], pa.string())


def _undeclared_fields(row: dict[str, Any], declared: Set[str]) -> str | None:
    """The fields that are not declared as a JSON object with sorted keys; None without any."""
    if row.keys() <= declared:
        return None
    fields = {name: value for name, value in row.items() if name not in declared}
    return orjson.dumps(fields, option=orjson.OPT_SORT_KEYS).decode()


def _convert_columns(
    schema: StreamSchema, rows: list[dict[str, Any]]
) -> tuple[dict[str, pa.Array], dict[int, str]]:
    """The declared columns by name, and the first error of each invalid row by index."""
    columns: dict[str, pa.Array] = {}
    errors: dict[int, str] = {}
    for name, kind in schema.columns.items():
        columns[name], column_errors = _convert_column([row.get(name) for row in rows], kind)
        for index, detail in column_errors.items():
            errors.setdefault(index, f"column {name}: {detail}")
        if name == schema.time:
            for index in pc.indices_nonzero(pc.is_null(columns[name])).to_pylist():
                errors.setdefault(index, f"column {name}: event time is missing")
    return columns, errors


def _convert_column(values: list[Any], kind: str) -> tuple[pa.Array, dict[int, str]]:
    """The values as one array, and errors by index (null in the array)."""
    array = _convert_with_arrow(values, kind)
    if array is not None:
        return array, {}
    convert = _CONVERTERS[kind]
    converted: list[Any] = []
    errors: dict[int, str] = {}
    for index, value in enumerate(values):
        try:
            converted.append(None if value is None else convert(value))
        except (ValueError, OverflowError) as error:
            converted.append(None)
            errors[index] = str(error)[:_MAX_DETAIL_LENGTH]
    return pa.array(converted, ARROW_TYPES[kind]), errors


# Python types that Arrow converts to the declared type exactly as the functions in _CONVERTERS do.
_ARROW_INPUT_TYPES: dict[str, frozenset[type]] = {
    "string": frozenset({str, type(None)}),
    "boolean": frozenset({bool, type(None)}),
    "int": frozenset({int, type(None)}),
    "bigint": frozenset({int, type(None)}),
    "float": frozenset({float, type(None)}),
    "double": frozenset({float, int, type(None)}),
}


# Texts that Arrow and Python parse to the same number. Columns with other texts (hexadecimal,
# exponents, …) are parsed value by value.
_PLAIN_NUMBER = {
    "int": r"^-?[0-9]{1,18}$",
    "bigint": r"^-?[0-9]{1,18}$",
    "float": r"^-?[0-9]{1,15}(\.[0-9]{1,15})?$",
    "double": r"^-?[0-9]{1,15}(\.[0-9]{1,15})?$",
}


def _convert_with_arrow(values: list[Any], kind: str) -> pa.Array | None:
    """All values at once; None if Arrow's result could differ from the conversion one by one."""
    value_types = set(map(type, values))
    try:
        if value_types <= _ARROW_INPUT_TYPES.get(kind, frozenset()):
            return pa.array(values, ARROW_TYPES[kind])
        if not value_types <= {str, type(None)}:
            return None
        if kind == "timestamp":
            return timestamps_from_texts(pa.array(values, pa.string()))
        if kind in _PLAIN_NUMBER:
            return numbers_from_texts(pa.array(values, pa.string()), kind)
    except (pa.ArrowInvalid, OverflowError):
        return None
    return None


def numbers_from_texts(text: pa.Array, kind: str) -> pa.Array | None:
    """Texts as numbers; None if a text is not a plain number. Raises `ArrowInvalid` out of range."""
    is_plain = pc.all(pc.match_substring_regex(text, _PLAIN_NUMBER[kind])).as_py()
    if is_plain is False:
        return None
    if kind == "float":  # rounded twice, as a Python float is
        text = pc.cast(text, pa.float64())
    return pc.cast(text, ARROW_TYPES[kind])


def timestamps_from_texts(text: pa.Array) -> pa.Array | None:
    """Texts as timestamps; None or `ArrowInvalid` if they are to be converted one by one."""
    try:
        moments = pc.cast(text, ARROW_TYPES["timestamp"])
    except pa.ArrowInvalid:  # without a time zone: UTC
        moments = pc.assume_timezone(pc.cast(text, pa.timestamp("us")), "UTC")
    bounds = pc.min_max(moments.cast(pa.int64())).as_py()
    if bounds["min"] is None:
        return moments
    is_valid = _is_valid_time(bounds["min"]) and _is_valid_time(bounds["max"])
    return moments if is_valid else None


def _to_string(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _to_boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise _InvalidValue(f"{_abbreviate(value)} is not a boolean")


def _integer_converter(kind: str) -> Callable[[Any], int]:
    limit = INT_LIMITS[kind]

    def convert(value: Any) -> int:
        if isinstance(value, str):
            value = _parse_number(value)
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
            raise _InvalidValue(f"{_abbreviate(value)} is not an integer")
        if not -limit <= value < limit:
            raise _InvalidValue(f"{_abbreviate(value)} is out of range for type {kind}")
        return int(value)

    return convert


def _to_float(value: Any) -> float:
    if isinstance(value, str):
        number = _parse_number(value)
        # The int of "-0" has no sign, the float of it has.
        value = float(value) if number == 0 else number
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _InvalidValue(f"{_abbreviate(value)} is not a number")
    return float(value)


def _parse_number(text: str) -> int | float:
    if "_" in text:
        raise _InvalidValue(f"{_abbreviate(text)} is not a number")
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise _InvalidValue(f"{_abbreviate(text)} is not a number") from None


def _to_date(value: Any) -> date:
    if not isinstance(value, str):
        raise _InvalidValue(f"{_abbreviate(value)} is not a date")
    try:
        return date.fromisoformat(value.strip())
    except ValueError:
        raise _InvalidValue(f"{_abbreviate(value)} is not a date such as 2026-01-31") from None


def _to_micros(value: Any) -> Micros:
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not math.isfinite(value) or not MIN_EVENT_TIME <= value <= MAX_EVENT_TIME:
            raise _InvalidValue(
                f"{_abbreviate(value)} seconds since 1970 is not between the years 1900 and 9999"
            )
        return round(value * 1_000_000)
    if not isinstance(value, str):
        raise _InvalidValue(f"{_abbreviate(value)} is not a timestamp")
    try:
        moment = datetime.fromisoformat(value.strip())
    except ValueError:
        raise _InvalidValue(
            f"{_abbreviate(value)} is not a timestamp such as 2026-01-31T12:00:00Z"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    micros = to_micros(moment)
    if not _is_valid_time(micros):
        raise _InvalidValue(f"{_abbreviate(value)} is not between the years 1900 and 9999")
    return micros


def _is_valid_time(micros: Micros) -> bool:
    return MIN_EVENT_TIME * 1_000_000 <= micros <= MAX_EVENT_TIME * 1_000_000


def _abbreviate(value: Any) -> str:
    text = repr(value)
    if isinstance(value, bool | dict | list):
        text = orjson.dumps(value).decode()  # as the record spells it
    if len(text) <= _MAX_QUOTED_LENGTH:
        return text
    return text[: _MAX_QUOTED_LENGTH - 3] + "..."


_CONVERTERS: Mapping[str, Callable[[Any], Any]] = {
    "string": _to_string,
    "boolean": _to_boolean,
    "int": _integer_converter("int"),
    "bigint": _integer_converter("bigint"),
    "float": _to_float,
    "double": _to_float,
    "date": _to_date,
    "timestamp": _to_micros,
}
