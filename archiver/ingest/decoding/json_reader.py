"""Read lines of JSON at once, if Arrow's reader and the line decoder return the same rows.

Arrow's reader takes lines as one text. It accepts several objects on one line, an object on several
lines, and numbers that are not JSON; it does not verify the encoding, and deep nesting exhausts its
stack. Such texts are declined before it sees them. What it refuses is declined, too.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from archiver.delta import StreamSchema
from archiver.formats import MISSING, RecordReading, find_value, parse_path
from archiver.ingest.decoding.column_values import convert_columns, extra_column
from archiver.ingest.decoding.line_decoder import decode_lines
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
# So many records are searched for values of the fields that the first one does not have.
_MAX_SEARCHED = 50
_MAX_BLANKS = 16  # before a null that is looked at
# Of the lines of a block, those that are decoded one by one.
_MAX_NULL_SHARE = 0.25
_EXACT_TIME_TYPES = {str: pa.string(), int: pa.int64()}


def read_json_block(
    schema: StreamSchema, reading: RecordReading, lines: Sequence[bytes]
) -> pa.Table | None:
    """The rows of the lines; None unless the line decoder would return the same ones."""
    text = b"\n".join(lines)
    if not _is_one_object_per_line(text, lines) or not _is_utf8(text):
        return None
    records = _sample_records(lines)
    if not records:
        return None
    if any(record.keys() != records[0].keys() for record in records) and _has_null(text):
        return _read_apart(schema, reading, lines)
    expected = _choose_types(schema, records)
    if expected is None:
        return None
    rows = _read_rows(text, pa.schema(list(expected.items())))
    if rows is None or len(rows) != len(lines):
        return None
    fields = dict(zip(rows.schema.names, rows.columns, strict=True))
    for field in _read_fields(schema):
        if not _is_unambiguous(field, fields, expected):
            return None
    may_have_null = any(
        values.null_count or pa.types.is_nested(values.type) for values in rows.columns
    )
    is_sparse = not (may_have_null and _has_null(text))
    table = _to_table(schema, reading, fields, lines, is_sparse=is_sparse)
    return _read_apart(schema, reading, lines) if table is None and not is_sparse else table


def _read_apart(
    schema: StreamSchema, reading: RecordReading, lines: Sequence[bytes]
) -> pa.Table | None:
    """The rows of the lines, of which a few have nulls: these are decoded one by one."""
    positions: dict[bool, list[int]] = {True: [], False: []}
    for position, line in enumerate(lines):
        positions[not _has_null(line)].append(position)
    if not 0 < len(positions[False]) <= len(lines) * _MAX_NULL_SHARE:
        return None
    table = read_json_block(schema, reading, [lines[position] for position in positions[True]])
    null_rows = decode_lines(schema, reading, [lines[position] for position in positions[False]], 0)
    if table is None or null_rows.refused_lines:
        return None
    order = np.argsort([*positions[True], *positions[False]])
    return pa.concat_tables([table, null_rows.table]).take(pa.array(order)).combine_chunks()


def _read_rows(text: bytes, expected: pa.Schema) -> pa.RecordBatch | None:
    """Lines as a table; None if Arrow refuses one. Fields that are not expected come last."""
    options = pyarrow.json.ParseOptions(explicit_schema=expected, unexpected_field_behavior="infer")
    try:
        # With less overhead than `read_json`.
        rows = pyarrow.json.open_json(
            pa.BufferReader(text), read_options=_READ_OPTIONS, parse_options=options
        ).read_next_batch()
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return None
    with_texts = pa.schema([(field.name, _with_texts(field.type)) for field in rows.schema])
    return rows if with_texts.equals(rows.schema) else _read_rows(text, with_texts)


def _with_texts(kind: pa.DataType, *, is_element: bool = False) -> pa.DataType:
    """A type in which texts that look like times are texts, and so is what is null in arrays.

    Arrow's reader makes invalid arrays of nulls.
    """
    if pa.types.is_timestamp(kind) or (is_element and pa.types.is_null(kind)):
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(_with_texts(kind.value_type, is_element=True))
    if pa.types.is_struct(kind):
        return pa.struct([(f.name, _with_texts(f.type, is_element=is_element)) for f in kind])
    return kind


def _to_table(
    schema: StreamSchema,
    reading: RecordReading,
    fields: Mapping[str, pa.Array],
    lines: Sequence[bytes],
    *,
    is_sparse: bool,
) -> pa.Table | None:
    """`is_sparse`: no value in the lines is null; what is null here is not in its record."""
    values: dict[str, pa.Array] = {}
    unread = dict(fields)
    read_fields = list(schema.time_reading.parts)
    for name in _columns_of_fields(schema):
        candidates = schema.fields_of(name)
        present = [field for field in candidates if _leads_to_field(fields, field)]
        candidate_values = [_find_field(fields, field) for field in present or candidates[:1]]
        if any(value.type != candidate_values[0].type for value in candidate_values):
            return None
        values[name] = candidate_values[0]
        read_fields += present[:1]
        if len(present) > 1:
            values[name] = pc.coalesce(*candidate_values)
            if not is_sparse or not fields.keys() >= set(present):
                return None
            is_read = candidate_values[0].is_valid()
            for field, value in zip(present[1:], candidate_values[1:], strict=True):
                unread[field] = pc.if_else(is_read, unread[field], None)
                is_read = pc.or_(is_read, value.is_valid())
    if schema.time_reading.parts:
        parts = [_find_field(fields, part) for part in schema.time_reading.parts]
        if not all(pa.types.is_string(part.type) for part in parts):
            return None
        values[schema.time] = pc.binary_join_element_wise(*parts, " ")
    undeclared = _without_fields(unread, read_fields, lines, is_sparse=is_sparse)
    if undeclared is None:
        return None
    if not is_sparse:
        nested = [value for value in values.values() if pa.types.is_nested(value.type)]
        written = [pa.StructArray.from_arrays(list(undeclared.values()), list(undeclared)), *nested]
        if not all(_are_nulls_written(value, lines) for value in written):
            return None
    columns = convert_columns(schema, reading, values, len(lines), is_sparse=is_sparse)
    if columns is None:
        return None
    extra = extra_column(undeclared, len(lines), is_sparse=is_sparse)
    return None if extra is None else pa.table({**columns, "_extra": extra})


def _are_nulls_written(value: pa.Array, lines: Sequence[bytes]) -> bool:
    """Whether each field that is null in a value is in each line. `lines`: empty inside of arrays.

    A field that is missing is not written as JSON. To Arrow's reader it is null.
    """
    if pa.types.is_list(value.type):
        elements = value.flatten()
        return not elements.null_count and _are_nulls_written(elements, ())
    if not pa.types.is_struct(value.type):
        return True
    for index, field in enumerate(value.type):
        inner = value.field(index)
        if inner.null_count and not (lines and _are_fields_of(field.name, lines)):
            return False
        if not _are_nulls_written(inner, lines):
            return False
    return True


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


def _has_null(text: bytes) -> bool:
    """Whether a value is null, or a part of a text looks so."""
    position = text.find(b"null")
    while position >= 0:
        before = text[max(0, position - _MAX_BLANKS) : position].rstrip()
        if not before or before.endswith((b":", b",", b"[")):
            return True
        position = text.find(b"null", position + 1)
    return False


def _is_utf8(text: bytes) -> bool:
    if text.isascii():
        return True
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _sample_records(lines: Sequence[bytes]) -> list[dict[str, Any]]:
    """The first records; none if some are no JSON."""
    try:
        return [orjson.loads(line) for line in lines[:_MAX_SEARCHED]]
    except orjson.JSONDecodeError:
        return []


def _add_values(record: dict[str, Any], other: Mapping[str, Any]) -> None:
    """Add the values of another record where a record has none."""
    for name, value in other.items():
        present = record.get(name)
        if present is None:
            record[name] = value
        elif isinstance(present, dict) and isinstance(value, dict):
            _add_values(present, value)


def _columns_of_fields(schema: StreamSchema) -> list[str]:
    """The columns without a time that is in several fields."""
    has_parts = bool(schema.time_reading.parts)
    return [name for name in schema.columns if not (has_parts and name == schema.time)]


def _read_fields(schema: StreamSchema) -> list[str]:
    """All fields that columns may be read from."""
    fields = list(schema.time_reading.parts)
    for name in _columns_of_fields(schema):
        fields += schema.fields_of(name)
    return fields


def _choose_types(
    schema: StreamSchema, records: Sequence[dict[str, Any]]
) -> dict[str, pa.DataType] | None:
    """Arrow's types of the fields of records like some; None if it has none for a column."""
    record: dict[str, Any] = {}
    for other in records:
        _add_values(record, other)
    read_types: dict[str, pa.DataType] = {}
    for name in _columns_of_fields(schema):
        types = _types_of(schema, name, schema.columns[name])
        for field in schema.fields_of(name):
            value = find_value(record, field)
            read_type = _read_type(types, None if value is MISSING else value)
            if read_type is None or read_types.setdefault(field, read_type) != read_type:
                return None  # two columns read one field as different types, or no type fits
    return _to_types(record, read_types)


def _is_unambiguous(
    field: str, fields: Mapping[str, pa.Array], expected: Mapping[str, pa.DataType]
) -> bool:
    """Whether a field is at one place in all records that have it, and was read as expected."""
    steps = parse_path(field)
    if len(steps) == 1:
        return True
    is_inside = steps[0] in fields
    if field in fields:
        return field in expected and not is_inside
    if any(not isinstance(step, str) for step in steps):
        return not is_inside
    if any("." in name and field.startswith(f"{name}.") for name in fields):
        return False  # a name has dots
    if not is_inside:
        return True
    kind = fields[str(steps[0])].type
    if _has_dotted_names(kind):
        return False
    expected_kind = expected.get(str(steps[0]), pa.null())
    return _has_path(expected_kind, steps[1:]) or not _has_path(kind, steps[1:])


def _has_dotted_names(kind: pa.DataType) -> bool:
    if not pa.types.is_struct(kind):
        return False
    return any("." in field.name or _has_dotted_names(field.type) for field in kind)


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
    """The types of the fields of a record, and of the fields to be read that it does not have.

    Fields whose type is not known have none: it is inferred.
    """
    types: dict[str, pa.DataType] = {}
    inner: dict[str, dict[str, pa.DataType]] = {}
    for field, read_type in read_types.items():
        steps = parse_path(field)
        if field in record or len(steps) == 1:
            types[field] = read_type
        elif find_value(record, field) is MISSING:
            continue  # another record may have it
        elif isinstance(steps[0], str) and len(steps) == len(tuple(filter(_is_name, steps))):
            inner.setdefault(steps[0], {})[".".join(map(str, steps[1:]))] = read_type
        else:
            return None
    for name, value in record.items():
        if name in types:
            if name in inner:
                return None
            continue
        value_type = _undeclared_type(value)
        if name in inner:
            if not isinstance(value, dict):
                return None
            inner_types = _to_types(value, inner[name])
            if inner_types is None:
                return None
            value_type = pa.struct(list(inner_types.items()))
        if value_type is not None:
            types[name] = value_type
    return types


def _is_name(step: str | int) -> bool:
    return isinstance(step, str)


def _undeclared_type(value: Any) -> pa.DataType | None:
    """The type of a value that can be written as JSON again, as far as it is known."""
    if isinstance(value, dict):
        types = {name: _undeclared_type(inner) for name, inner in value.items()}
        return pa.struct([(name, kind) for name, kind in types.items() if kind is not None])
    if isinstance(value, list):
        kinds = {_undeclared_type(inner) for inner in value}
        return pa.list_(*kinds) if len(kinds) == 1 and None not in kinds else None
    return _UNDECLARED_TYPES.get(type(value))


def _leads_to_field(fields: Mapping[str, pa.Array], field: str) -> bool:
    """Whether some records may have a field."""
    first, *steps = parse_path(field)
    return field in fields or (first in fields and _has_path(fields[str(first)].type, steps))


def _has_path(kind: pa.DataType, steps: Sequence[str | int]) -> bool:
    """Whether objects of a type have a field at a path."""
    for step in steps:
        if not pa.types.is_struct(kind) or kind.get_field_index(str(step)) < 0:
            return False
        kind = kind.field(str(step)).type
    return True


def _find_field(fields: Mapping[str, pa.Array], field: str) -> pa.Array:
    """The values of a field, which may be inside others; null where a record has none."""
    if field in fields:
        return fields[field]
    if not _leads_to_field(fields, field):
        return pa.nulls(len(next(iter(fields.values()))), pa.string())
    first, *steps = parse_path(field)
    return pc.struct_field(fields[str(first)], list(map(str, steps)))


def _without_fields(
    fields: Mapping[str, pa.Array],
    read_fields: Sequence[str],
    lines: Sequence[bytes],
    *,
    is_sparse: bool,
) -> dict[str, pa.Array] | None:
    """The fields that no column reads; objects of which nothing remains are left out.

    None if it is not known whether an object was empty before. `is_sparse`: see `_to_table`.
    """
    rest = {name: values for name, values in fields.items() if name not in read_fields}
    inner_fields: dict[str, list[str]] = {}
    for field in read_fields:
        name, *steps = map(str, parse_path(field))
        if field not in fields and steps and _leads_to_field(fields, field):
            inner_fields.setdefault(name, []).append(".".join(steps))
    for name, paths in inner_fields.items():
        values = rest.pop(name)
        inner = dict(zip((field.name for field in values.type), values.flatten(), strict=True))
        remaining = _without_fields(inner, paths, lines, is_sparse=is_sparse)
        if is_sparse:
            is_known = pc.all(pc.or_(values.is_null(), _has_any(inner.values()))).as_py()
        else:
            is_known = not values.null_count and _are_nulls_written(values, lines)
        if remaining is None or not is_known:
            return None
        if remaining:
            is_left_out = pc.invert(_has_any(remaining.values())) if is_sparse else None
            rest[name] = pa.StructArray.from_arrays(
                list(remaining.values()), list(remaining), mask=is_left_out
            )
    return rest


def _has_any(values: Iterable[pa.Array]) -> pa.Array:
    """Whether one of some values is not null, by row."""
    return reduce(pc.or_, [value.is_valid() for value in values])
