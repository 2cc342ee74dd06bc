"""Lines of a source become typed columns; a line that cannot is refused alone, with its reason. Pure."""

import csv
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Literal

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from archiver.delta import ARROW_TYPES, StreamSchema
from archiver.errors import ArchiverError
from archiver.times import to_micros

LineFormat = Literal["jsonl", "csv"]

# Bytes. A longer line is refused: no line may hold up the stream or fill the memory.
MAX_LINE_BYTES = 1 << 20

INT_LIMITS = {"int": 2**31, "bigint": 2**63}
# Event times: from 1900 to 9999, in seconds since 1970. Nothing real is older, and what computes with times has room.
MIN_EVENT_TIME, MAX_EVENT_TIME = -2208988800, 253402300799


@dataclass(frozen=True)
class RefusedLine:
    """A line that is not archived: its number in the unit, why, and its bytes."""

    line: int
    reason: Literal["malformed", "quarantined", "conflict", "expired"]
    detail: str
    raw: bytes


@dataclass(frozen=True)
class DecodedRows:
    """Typed rows of some lines. `table` holds the declared columns and `_extra`; `lines` the line of each row."""

    table: pa.Table
    line_numbers: list[int]
    raw: Sequence[bytes]
    refused_lines: list[RefusedLine]


class _InvalidValue(ArchiverError, ValueError):
    """One value does not fit its column."""


def decode_lines(
    schema: StreamSchema,
    line_format: LineFormat,
    lines: Sequence[bytes],
    first: int,
    header: Sequence[str] = (),
) -> DecodedRows:
    """Decode non-blank `lines`, numbered from `first`, of one unit; `header` names the fields of CSV lines."""
    records, refused = _parse_records(line_format, lines, first, header)
    rows = [record for record in records if record is not None]
    numbers = [first + i for i, record in enumerate(records) if record is not None]
    raw = [lines[number - first] for number in numbers]
    columns, bad = _convert_columns(schema, rows)
    refused += [RefusedLine(numbers[i], "malformed", detail, raw[i]) for i, detail in bad.items()]
    table = pa.table({**columns, "_extra": _extra_column(schema, rows)})
    if bad:
        keep = [i for i in range(len(rows)) if i not in bad]
        table = table.take(pa.array(keep, pa.int64()))
        numbers, raw = [numbers[i] for i in keep], [raw[i] for i in keep]
    return DecodedRows(table, numbers, raw, sorted(refused, key=lambda r: r.line))


def parse_csv_header(line: bytes) -> list[str]:
    """The field names of a CSV file's first line. Raises `ValueError` where it is none."""
    try:
        names = next(csv.reader([line.decode("utf-8")], strict=True))
    except csv.Error as error:
        raise ValueError(str(error)) from error
    if len(set(names)) != len(names):
        raise ValueError("a field stands twice in the header")
    return [name.strip() for name in names]


def _parse_records(
    form: LineFormat, lines: Sequence[bytes], first: int, header: Sequence[str]
) -> tuple[list[dict[str, Any] | None], list[RefusedLine]]:
    read: Callable[[bytes], dict[str, Any]] = (
        _parse_json if form == "jsonl" else _csv_parser(header)
    )
    records: list[dict[str, Any] | None] = []
    refused: list[RefusedLine] = []
    for number, line in enumerate(lines, first):
        try:
            if len(line) > MAX_LINE_BYTES:
                raise _InvalidValue(f"line of {len(line)} bytes, at most {MAX_LINE_BYTES}")
            records.append(read(line))
        except (ValueError, csv.Error) as error:
            records.append(None)
            refused.append(
                RefusedLine(number, "malformed", str(error)[:200], line[:MAX_LINE_BYTES])
            )
    return records, refused


def _parse_json(line: bytes) -> dict[str, Any]:
    value = orjson.loads(line)
    if type(value) is not dict:
        raise _InvalidValue("not a JSON object")
    if b"[" in line or line.count(b"{") > 1:
        try:
            orjson.dumps(value)
        except TypeError as error:  # what cannot be written cannot be kept
            raise _InvalidValue("nested too deep") from error
    return value


def _csv_parser(header: Sequence[str]) -> Callable[[bytes], dict[str, Any]]:
    width = len(header)

    def read(line: bytes) -> dict[str, Any]:
        text = line.decode("utf-8")
        # Splitting is much faster than the reader, and the same where nothing is quoted.
        fields = text.split(",") if '"' not in text else next(csv.reader([text], strict=True))
        if len(fields) != width:
            raise _InvalidValue(f"{len(fields)} fields, the header has {width}")
        # An empty field is no value.
        return {name: field or None for name, field in zip(header, fields, strict=True)}

    return read


def _extra_column(schema: StreamSchema, rows: list[dict[str, Any]]) -> pa.Array:
    declared = schema.columns.keys()
    return pa.array(
        [
            None
            if row.keys() <= declared
            else orjson.dumps(
                {k: v for k, v in row.items() if k not in declared}, option=orjson.OPT_SORT_KEYS
            ).decode()
            for row in rows
        ],
        pa.string(),
    )


def _convert_columns(
    schema: StreamSchema, rows: list[dict[str, Any]]
) -> tuple[dict[str, pa.Array], dict[int, str]]:
    columns: dict[str, pa.Array] = {}
    bad: dict[int, str] = {}
    for name, kind in schema.columns.items():
        columns[name], wrong = _convert_column([row.get(name) for row in rows], kind)
        for i, detail in wrong.items():
            bad.setdefault(i, f"column {name}: {detail}")
        if name == schema.time:
            for i in pc.indices_nonzero(pc.is_null(columns[name])).to_pylist():
                bad.setdefault(i, f"column {name}: no event time")
    return columns, bad


def _convert_column(values: list[Any], kind: str) -> tuple[pa.Array, dict[int, str]]:
    """The values as one array, and what does not fit by index (null in the array)."""
    quick = _convert_with_arrow(values, kind)
    if quick is not None:
        return quick, {}
    convert = _CONVERTERS[kind]
    result: list[Any] = []
    wrong: dict[int, str] = {}
    for i, value in enumerate(values):
        try:
            result.append(None if value is None else convert(value))
        except (ValueError, OverflowError) as error:
            result.append(None)
            wrong[i] = str(error)[:200]
    return pa.array(result, ARROW_TYPES[kind]), wrong


# Types whose conversion by Arrow equals the one value by value.
_ARROW_INPUT_TYPES: dict[str, frozenset[type]] = {
    "string": frozenset({str, type(None)}),
    "boolean": frozenset({bool, type(None)}),
    "int": frozenset({int, type(None)}),
    "bigint": frozenset({int, type(None)}),
    "float": frozenset({float, type(None)}),
    "double": frozenset({float, int, type(None)}),
}


# Numbers as text that Arrow and Python read alike; others (hexadecimal, exponents, …) are read one by one.
_PLAIN_NUMBER = {
    "int": r"^-?[0-9]{1,18}$",
    "bigint": r"^-?[0-9]{1,18}$",
    "double": r"^-?[0-9]{1,15}(\.[0-9]{1,15})?$",
}


def _convert_with_arrow(values: list[Any], kind: str) -> pa.Array | None:
    kinds = set(map(type, values))
    try:
        if kinds <= _ARROW_INPUT_TYPES.get(kind, frozenset()):
            return pa.array(values, ARROW_TYPES[kind])
        if kind == "timestamp" and kinds <= {str, type(None)}:
            return _timestamps_with_arrow(pa.array(values, pa.string()))
        if kind in _PLAIN_NUMBER and kinds <= {str, type(None)}:
            text = pa.array(values, pa.string())
            plain = pc.all(pc.match_substring_regex(text, _PLAIN_NUMBER[kind])).as_py()
            return pc.cast(text, ARROW_TYPES[kind]) if plain in (True, None) else None
    except (pa.ArrowInvalid, OverflowError):
        return None
    return None


def _timestamps_with_arrow(text: pa.Array) -> pa.Array | None:
    try:
        moments = pc.cast(text, ARROW_TYPES["timestamp"])
    except pa.ArrowInvalid:  # without zone: UTC
        moments = pc.assume_timezone(pc.cast(text, pa.timestamp("us")), "UTC")
    span = pc.min_max(moments.cast(pa.int64())).as_py()
    known = span["min"] is None or (_is_valid_time(span["min"]) and _is_valid_time(span["max"]))
    return moments if known else None


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
            raise _InvalidValue(f"{_abbreviate(value)} is not a whole number")
        if not -limit <= value < limit:
            raise _InvalidValue(f"{_abbreviate(value)} does not fit {kind}")
        return int(value)

    return convert


def _to_float(value: Any) -> float:
    if isinstance(value, str):
        value = (
            float(value) if _parse_number(value) == 0 else _parse_number(value)
        )  # -0 keeps its sign
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
        raise _InvalidValue(f"{_abbreviate(value)} is not a date like 2026-01-31") from None


def _to_micros(value: Any) -> int:
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not math.isfinite(value) or not MIN_EVENT_TIME <= value <= MAX_EVENT_TIME:
            raise _InvalidValue(f"{_abbreviate(value)} seconds are no time")
        return round(value * 1_000_000)
    if not isinstance(value, str):
        raise _InvalidValue(f"{_abbreviate(value)} is not a time")
    try:
        moment = datetime.fromisoformat(value.strip())
    except ValueError:
        raise _InvalidValue(
            f"{_abbreviate(value)} is not a time like 2026-01-31T12:00:00Z"
        ) from None
    micros = to_micros(moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment)
    if not _is_valid_time(micros):
        raise _InvalidValue(f"{_abbreviate(value)} is not between the years 1900 and 9999")
    return micros


def _is_valid_time(micros: int) -> bool:
    return MIN_EVENT_TIME * 1_000_000 <= micros <= MAX_EVENT_TIME * 1_000_000


def _abbreviate(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


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
