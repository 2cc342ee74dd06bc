"""Decode lines of JSON or CSV to typed columns, refusing each invalid line separately. No I/O."""

import csv
import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from operator import attrgetter
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from archiver.delta import ARROW_TYPES, StreamSchema
from archiver.errors import InvalidValue
from archiver.ingest.decoding.invalid_value import abbreviate
from archiver.ingest.decoding.numbers import (
    JsonNumber,
    is_integer_text,
    needs_text,
    number_in_json,
    numbers_from_floats,
    numbers_from_texts,
    to_float,
    to_integer,
)
from archiver.times import Micros, to_micros

LineFormat = Literal["jsonl", "csv"]
RefusalReason = Literal["malformed", "quarantined", "conflict", "expired"]

# Longer lines are refused, so that one line can neither stall the stream nor exhaust the memory.
MAX_LINE_BYTES = 1 << 20  # bytes

# Bounds of event times: leaves room for time arithmetic without overflow.
MIN_EVENT_TIME = -2208988800  # 1900-01-01T00:00:00Z, in seconds since 1970
END_OF_EVENT_TIME = 253402300800  # 10000-01-01T00:00:00Z, exclusive, in seconds since 1970

_MAX_DETAIL_LENGTH = 200  # characters of an error message
_INVALID_HEADER = (
    "the header line of the CSV file is invalid: not UTF-8 text, a field name twice, or an open "
    "quote"
)
# By a part of the message of Python's CSV reader: the fact for the user.
_CSV_ERRORS = {
    "unexpected end of data": "a quoted field has no closing quote",
    "expected after": "a closing quote is followed by text; a quote in quoted text is doubled",
    "new-line character": "a carriage return within the line; lines end with LF or CRLF",
}


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
    columns, errors = _convert_columns(schema, rows, raw)
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
    names = _split_csv(_decode_utf8(line))
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
            if not line.strip():
                raise InvalidValue("empty record")
            if len(line) > MAX_LINE_BYTES:
                raise InvalidValue(
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
        raise InvalidValue(_describe_json_error(error, line)) from error
    if type(value) is not dict:
        raise InvalidValue("the line is not a JSON object")
    if b"[" in line or line.count(b"{") > 1:
        try:
            orjson.dumps(value)
        except TypeError as error:  # deeper than orjson can serialise into `_extra`
            raise InvalidValue("the JSON object is nested too deeply") from error
    return value


def _describe_json_error(error: orjson.JSONDecodeError, line: bytes) -> str:
    """The fact and the column, without the characters that the parser expected instead."""
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return "not UTF-8 text"
    if error.msg.startswith("number is infinity"):
        return f"a number is out of range for type double in column {error.colno}"
    return f"not JSON: {error.msg.partition(',')[0]} in column {error.colno}"


def _csv_parser(header: Sequence[str]) -> Callable[[bytes], dict[str, Any]]:
    width = len(header)

    def parse(line: bytes) -> dict[str, Any]:
        if not width:
            raise InvalidValue(_INVALID_HEADER)
        text = _decode_utf8(line)
        # Splitting is much faster than csv.reader, with the same result for lines without quotes.
        fields = text.split(",") if '"' not in text else _split_csv(text)
        if len(fields) != width:
            raise InvalidValue(f"the line has {len(fields)} fields, the header has {width}")
        # An empty field is a null.
        return {name: field or None for name, field in zip(header, fields, strict=True)}

    return parse


def _decode_utf8(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidValue("not UTF-8 text") from error


def _split_csv(text: str) -> list[str]:
    """The fields of one record. Raises `InvalidValue`."""
    try:
        return next(csv.reader([text], strict=True))
    except csv.Error as error:
        for parser_message, fact in _CSV_ERRORS.items():
            if parser_message in str(error):
                raise InvalidValue(fact) from error
        raise InvalidValue(str(error)) from error


def _extra_column(schema: StreamSchema, rows: list[dict[str, Any]]) -> pa.Array:
    if schema.fields:
        extra = [{name: row[name] for name in schema.undeclared_fields(row)} for row in rows]
        return pa.array([_to_json(fields) if fields else None for fields in extra], pa.string())
    declared = schema.columns.keys()
    return pa.array([_undeclared_fields(row, declared) for row in rows], pa.string())


def _undeclared_fields(row: dict[str, Any], declared: Set[str]) -> str | None:
    """The fields that are not declared as a JSON object with sorted keys; None without any."""
    if row.keys() <= declared:
        return None
    return _to_json({name: value for name, value in row.items() if name not in declared})


def _to_json(fields: dict[str, Any]) -> str:
    return orjson.dumps(fields, option=orjson.OPT_SORT_KEYS).decode()


def _convert_columns(
    schema: StreamSchema, rows: list[dict[str, Any]], lines: Sequence[bytes]
) -> tuple[dict[str, pa.Array], dict[int, str]]:
    """The declared columns by name, and the first error of each invalid row by index.

    `lines`: those of the rows, where JSON numbers have all their digits.
    """
    columns: dict[str, pa.Array] = {}
    errors: dict[int, str] = {}
    for name, kind in schema.columns.items():
        values = _column_values(schema, name, rows)
        array = _convert_with_arrow(values, kind)
        column_errors: dict[int, str] = {}
        if array is None:
            for index, value in enumerate(values):
                if needs_text(value, kind):
                    field = schema.present_field(name, rows[index])
                    assert field is not None
                    values[index] = number_in_json(lines[index], field)
            array, column_errors = _convert_one_by_one(values, kind)
        columns[name] = array
        for index, detail in column_errors.items():
            errors.setdefault(index, f"column {name}: {detail}")
        if name == schema.time:
            for index in pc.indices_nonzero(pc.is_null(columns[name])).to_pylist():
                errors.setdefault(index, f"column {name}: event time is missing")
    return columns, errors


def _column_values(schema: StreamSchema, name: str, rows: list[dict[str, Any]]) -> list[Any]:
    """The values of a column, from the first of its fields that a row has."""
    fields = schema.fields_of(name)
    if len(fields) == 1:
        return [row.get(fields[0]) for row in rows]
    present_fields = [schema.present_field(name, row) for row in rows]
    return [
        None if field is None else row[field]
        for row, field in zip(rows, present_fields, strict=True)
    ]


def _convert_one_by_one(values: list[Any], kind: str) -> tuple[pa.Array, dict[int, str]]:
    """The values as one array, and errors by index (null in the array)."""
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
    "double": frozenset({float, int, type(None)}),
}

_NUMBER_TYPES = frozenset({"int", "bigint", "float", "double"})


def _convert_with_arrow(values: list[Any], kind: str) -> pa.Array | None:
    """All values at once; None if Arrow's result could differ from the conversion one by one."""
    value_types = set(map(type, values))
    try:
        if value_types <= {float, type(None)} and kind in ("float", "double"):
            return numbers_from_floats(pa.array(values, pa.float64()), kind)
        if value_types <= _ARROW_INPUT_TYPES.get(kind, frozenset()):
            return pa.array(values, ARROW_TYPES[kind])
        if not value_types <= {str, type(None)}:
            return None
        if kind == "timestamp":
            return timestamps_from_texts(pa.array(values, pa.string()))
        if kind in _NUMBER_TYPES:
            return numbers_from_texts(pa.array(values, pa.string()), kind)
    except (pa.ArrowInvalid, OverflowError):
        return None
    return None


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
    if isinstance(value, JsonNumber) and not is_integer_text(value):
        value = float(value)
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _to_boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise InvalidValue(f"{abbreviate(value)} is not a boolean")


def _to_date(value: Any) -> date:
    if not isinstance(value, str):
        raise InvalidValue(f"{abbreviate(value)} is not a date")
    try:
        return date.fromisoformat(value.strip())
    except ValueError:
        raise InvalidValue(f"{abbreviate(value)} is not a date such as 2026-01-31") from None


def _to_micros(value: Any) -> Micros:
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not math.isfinite(value) or not MIN_EVENT_TIME <= value < END_OF_EVENT_TIME:
            raise InvalidValue(
                f"{abbreviate(value)} seconds since 1970 is not between the years 1900 and 9999"
            )
        return round(value * 1_000_000)
    if not isinstance(value, str):
        raise InvalidValue(f"{abbreviate(value)} is not a timestamp")
    try:
        moment = datetime.fromisoformat(value.strip())
    except ValueError:
        raise InvalidValue(
            f"{abbreviate(value)} is not a timestamp such as 2026-01-31T12:00:00Z"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    micros = to_micros(moment)
    if not _is_valid_time(micros):
        raise InvalidValue(f"{abbreviate(value)} is not between the years 1900 and 9999")
    return micros


def _is_valid_time(micros: Micros) -> bool:
    return MIN_EVENT_TIME * 1_000_000 <= micros < END_OF_EVENT_TIME * 1_000_000


_CONVERTERS: Mapping[str, Callable[[Any], Any]] = {
    "string": _to_string,
    "boolean": _to_boolean,
    "int": partial(to_integer, kind="int"),
    "bigint": partial(to_integer, kind="bigint"),
    "float": partial(to_float, kind="float"),
    "double": partial(to_float, kind="double"),
    "date": _to_date,
    "timestamp": _to_micros,
}
