"""Read lines of JSON at once, if Arrow's reader and the line decoder return the same rows.

Arrow's reader takes lines as one text. It accepts several objects on one line, an object on several
lines, and numbers that are not JSON; it does not verify the encoding, and deep nesting exhausts its
stack. Such texts are declined before it sees them. What it refuses is declined, too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from archiver.delta import StreamSchema
from archiver.formats import MISSING, RecordReading, find_value, locate, parse_path
from archiver.ingest.decoding.column_values import convert_columns, extra_column
from archiver.ingest.decoding.records import MAX_LINE_BYTES

# A block is read as a whole: the reader divides longer texts.
_READ_OPTIONS = pyarrow.json.ReadOptions(use_threads=False, block_size=2 * MAX_LINE_BYTES)
# Deeper values exhaust the stack of Arrow's reader, or of the line decoder's.
_MAX_DEPTH = 500

# By declared type and by the type of a value in the first record: the type to read a column as.
_NUMBER_TYPES = {str: pa.string(), int: pa.float64(), float: pa.float64()}
_SINGLE_TYPES = {str: pa.string(), int: pa.float32(), float: pa.float32()}
_READ_TYPES: Mapping[str, Mapping[type, pa.DataType]] = {
    "string": {str: pa.string(), int: pa.int64(), bool: pa.bool_()},
    "boolean": {bool: pa.bool_(), str: pa.string()},
    "int": {int: pa.int32(), str: pa.string()},
    "bigint": {int: pa.int64(), str: pa.string()},
    "float": _SINGLE_TYPES,
    "double": _NUMBER_TYPES,
    "date": {str: pa.string()},
    "timestamp": _NUMBER_TYPES,
}
_UNDECLARED_TYPES = _READ_TYPES["string"]
# So many records are searched for values of the fields that are null in the first one.
_MAX_SEARCHED = 50
_EXACT_TIME_TYPES = {str: pa.string(), int: pa.int64()}


def read_json_block(
    schema: StreamSchema, reading: RecordReading, lines: Sequence[bytes]
) -> pa.Table | None:
    """The rows of the lines; None unless the line decoder would return the same ones."""
    text = b"\n".join(lines)
    if not _is_one_object_per_line(text, lines) or not _is_utf8(text):
        return None
    record = _sample_record(lines)
    shape = None if record is None else _choose_shape(schema, record)
    if shape is None:
        return None
    options = pyarrow.json.ParseOptions(
        explicit_schema=pa.schema(list(shape.types.items())), unexpected_field_behavior="error"
    )
    try:
        # With less overhead than `read_json`.
        rows = pyarrow.json.open_json(
            pa.BufferReader(text), read_options=_READ_OPTIONS, parse_options=options
        ).read_next_batch()
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return None
    if len(rows) != len(lines):
        return None
    fields: dict[str, pa.Array] = {name: rows.column(name) for name in shape.types}
    return _to_table(schema, reading, fields, shape, lines)


def _to_table(
    schema: StreamSchema,
    reading: RecordReading,
    fields: Mapping[str, pa.Array],
    shape: "_Shape",
    lines: Sequence[bytes],
) -> pa.Table | None:
    values: dict[str, pa.Array] = {}
    for name, field in shape.fields.items():
        value = _find_field(fields, field)
        if value is None:
            return None
        values[name] = value
    if schema.time_reading.parts:
        parts = [_find_field(fields, part) for part in schema.time_reading.parts]
        if any(part is None or not pa.types.is_string(part.type) for part in parts):
            return None
        values[schema.time] = pc.binary_join_element_wise(*parts, " ")
    columns = convert_columns(schema, reading, values, len(lines))
    if columns is None:
        return None
    undeclared = _without_fields(fields, [*shape.fields.values(), *schema.time_reading.parts])
    nested = [value for value in values.values() if pa.types.is_nested(value.type)]
    written = [pa.StructArray.from_arrays(list(undeclared.values()), list(undeclared)), *nested]
    if not all(_has_null_fields(value, lines) for value in written):
        return None
    extra = extra_column(undeclared, len(lines))
    return None if extra is None else pa.table({**columns, "_extra": extra})


def _has_null_fields(value: pa.Array, lines: Sequence[bytes]) -> bool:
    """Whether the fields that are null in a value are in each line.

    A field that is missing is not written as JSON. To Arrow's reader it is null.
    """
    if pa.types.is_list(value.type):
        return not _has_nulls(value.flatten())
    if not pa.types.is_struct(value.type):
        return True
    for index in range(value.type.num_fields):
        inner = value.field(index)
        if inner.null_count and not _are_fields_of(value.type.field(index).name, lines):
            return False
        if not _has_null_fields(inner, lines):
            return False
    return True


def _has_nulls(value: pa.Array) -> bool:
    """Whether an element, or a field inside one, is null."""
    if pa.types.is_list(value.type):
        return bool(value.null_count) or _has_nulls(value.flatten())
    if pa.types.is_struct(value.type):
        fields = [value.field(index) for index in range(value.type.num_fields)]
        return bool(value.null_count) or any(map(_has_nulls, fields))
    return bool(value.null_count)


def _are_fields_of(name: str, lines: Sequence[bytes]) -> bool:
    """Whether each line certainly has one field of a name."""
    field = orjson.dumps(name) + b":"
    escaped = b"\\" + field  # the end of a longer name
    return all(line.count(field) == 1 and escaped not in line for line in lines)


def _is_one_object_per_line(text: bytes, lines: Sequence[bytes]) -> bool:
    """Whether each line is one object, if Arrow reads as many as lines.

    A line break inside an object would be between a closing and an opening brace, where JSON has a
    comma. So each line has at least one whole object.
    """
    is_line_by_line = (
        text.startswith(b"{")
        and text.endswith(b"}")
        and text.count(b"\n") == text.count(b"}\n{") == len(lines) - 1
        and b"\0" not in text  # ends the text for some parsers
    )
    if not is_line_by_line:
        return False
    if text.count(b"{") + text.count(b"[") <= len(lines) + _MAX_DEPTH:
        return True
    longest = max(map(len, lines))
    return longest <= _MAX_DEPTH or all(
        line.count(b"{") + line.count(b"[") <= _MAX_DEPTH for line in lines
    )


def _is_utf8(text: bytes) -> bool:
    if text.isascii():
        return True
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


@dataclass(frozen=True)
class _Shape:
    """How the records of a block are read: Arrow's types by field, and the field of each column."""

    types: Mapping[str, pa.DataType]
    fields: Mapping[str, str]


def _sample_record(lines: Sequence[bytes]) -> dict[str, Any] | None:
    """The first record, with values of later ones where it is null; None: some are no JSON."""
    try:
        record: dict[str, Any] = orjson.loads(lines[0])
        if b"null" in lines[0]:
            for line in lines[1:_MAX_SEARCHED]:
                _fill_nulls(record, orjson.loads(line))
    except orjson.JSONDecodeError:
        return None
    return record


def _fill_nulls(record: dict[str, Any], other: Mapping[str, Any]) -> None:
    for name, value in record.items():
        if value is None:
            record[name] = other.get(name)
        elif isinstance(value, dict) and isinstance(other.get(name), dict):
            _fill_nulls(value, other[name])


def _choose_shape(schema: StreamSchema, record: Mapping[str, Any]) -> _Shape | None:
    """The shape of a record; None if Arrow has no type for a value of it."""
    fields: dict[str, str] = {}
    read_types: dict[str, pa.DataType] = {}
    for name, kind in schema.columns.items():
        if name == schema.time and schema.time_reading.parts:
            continue
        candidates = schema.fields_of(name)
        present = [field for field in candidates if find_value(record, field) is not MISSING]
        if len(candidates) > 1 and len(present) > 1:
            return None  # another record may have only the second one
        field = present[0] if present else candidates[0]
        if locate(record, field) not in (None, (field,), parse_path(field)):
            return None  # a name inside has dots
        value = find_value(record, field)
        types = _types_of(schema, name, kind)
        read_type = _read_type(types, None if value is MISSING else value)
        if read_type is None or read_types.setdefault(field, read_type) != read_type:
            return None  # two columns read one field as different types, or no type fits
        fields[name] = field
    types_by_field = _to_types(record, read_types)
    return None if types_by_field is None else _Shape(types_by_field, fields)


def _types_of(schema: StreamSchema, name: str, kind: str) -> Mapping[type, pa.DataType]:
    if name == schema.time and schema.time_reading.unit is not None:
        return _EXACT_TIME_TYPES
    return _READ_TYPES[kind]


def _read_type(types: Mapping[type, pa.DataType], value: Any) -> pa.DataType | None:
    if value is None:
        return next(iter(types.values()))
    if isinstance(value, dict | list) and types is _UNDECLARED_TYPES:
        return _undeclared_type(value)
    return types.get(type(value))


def _to_types(
    record: Mapping[str, Any], read_types: Mapping[str, pa.DataType]
) -> dict[str, pa.DataType] | None:
    """The types of all fields of a record, and of the fields to be read that it does not have."""
    types: dict[str, pa.DataType] = {}
    inner: dict[str, dict[str, pa.DataType]] = {}
    for field, read_type in read_types.items():
        steps = parse_path(field)
        if field in record or len(steps) == 1 or find_value(record, field) is MISSING:
            if field not in record and find_value(record, field) is MISSING and len(steps) > 1:
                continue  # another record may have it: then it is unexpected
            types[field] = read_type
        elif isinstance(steps[0], str) and len(steps) == len(tuple(filter(_is_name, steps))):
            inner.setdefault(steps[0], {})[".".join(map(str, steps[1:]))] = read_type
        else:
            return None
    for name, value in record.items():
        if name in types:
            if name in inner:
                return None
            continue
        if name in inner:
            inner_types = _to_types(value, inner[name])
            if inner_types is None:
                return None
            types[name] = pa.struct(list(inner_types.items()))
            continue
        value_type = _undeclared_type(value)
        if value_type is None:
            return None
        types[name] = value_type
    return types


def _is_name(step: str | int) -> bool:
    return isinstance(step, str)


def _undeclared_type(value: Any) -> pa.DataType | None:
    """The type of a value that can be written as JSON again."""
    if value is None:
        return pa.null()
    if isinstance(value, dict):
        types = {name: _undeclared_type(inner) for name, inner in value.items()}
        if any(kind is None for kind in types.values()):
            return None
        return pa.struct(list(types.items()))
    if isinstance(value, list):
        kinds = {_undeclared_type(inner) for inner in value}
        if len(kinds) != 1 or None in kinds or _has_null_type(*kinds):
            return None
        return pa.list_(*kinds)
    return _UNDECLARED_TYPES.get(type(value))


def _has_null_type(kind: pa.DataType) -> bool:
    """Whether values of a type may only be null, or have such fields or elements."""
    inner = [kind.field(index).type for index in range(kind.num_fields)]
    return pa.types.is_null(kind) or any(map(_has_null_type, inner))


def _find_field(fields: Mapping[str, pa.Array], field: str) -> pa.Array | None:
    """The values of a field, which may be inside others; None if some records may lack it."""
    if field in fields:
        return fields[field]
    steps = parse_path(field)
    if len(steps) == 1 or steps[0] not in fields:
        return pa.nulls(len(next(iter(fields.values()))), pa.string())
    values = fields[str(steps[0])]
    for step in steps[1:]:
        if values.null_count or pa.types.is_list(values.type):
            return None
        if not _leads_to_field(values.type, [step]):
            return pa.nulls(len(values), pa.string())  # no record has more fields than the first
        values = values.field(str(step))
    return None if values.null_count else values


def _leads_to_field(kind: pa.DataType, steps: Sequence[str | int]) -> bool:
    """Whether objects of a type have a field at a path."""
    for step in steps:
        if not pa.types.is_struct(kind) or kind.get_field_index(str(step)) < 0:
            return False
        kind = kind.field(str(step)).type
    return True


def _without_fields(
    fields: Mapping[str, pa.Array], read_fields: Sequence[str]
) -> dict[str, pa.Array]:
    """The fields that no column reads; objects of which nothing remains are left out."""
    rest = {name: values for name, values in fields.items() if name not in read_fields}
    for field in read_fields:
        steps = parse_path(field)
        name = str(steps[0])
        is_inside = field not in fields and len(steps) > 1 and name in rest
        if is_inside and _leads_to_field(rest[name].type, steps[1:]):
            values = rest.pop(name)
            names = [values.type.field(index).name for index in range(values.type.num_fields)]
            inner = {inner_name: values.field(inner_name) for inner_name in names}
            remaining = _without_fields(inner, [".".join(map(str, steps[1:]))])
            if remaining:
                rest[name] = pa.StructArray.from_arrays(list(remaining.values()), list(remaining))
    return rest
