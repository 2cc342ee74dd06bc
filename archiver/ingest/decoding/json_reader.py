"""Read lines of JSON at once, if Arrow's reader and the line decoder return the same rows.

Arrow's reader takes lines as one text. It accepts several objects on one line, an object on several
lines, and numbers that are not JSON; it does not verify the encoding, and deep nesting exhausts its
stack. Such texts are declined before it sees them. What it refuses is declined, too.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.json

from archiver.delta import StreamSchema
from archiver.ingest.decoding.column_values import convert_columns, extra_column
from archiver.ingest.decoding.line_decoder import MAX_LINE_BYTES

# A block is read as a whole: the reader divides longer texts.
_READ_OPTIONS = pyarrow.json.ReadOptions(use_threads=False, block_size=2 * MAX_LINE_BYTES)
_NESTED_VALUE = re.compile(rb":[ \t\r]*[\[{]")

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


def read_json_block(schema: StreamSchema, lines: Sequence[bytes]) -> pa.Table | None:
    """The rows of the lines; None unless the line decoder would return the same ones."""
    text = b"\n".join(lines)
    if not _is_one_flat_object_per_line(text, len(lines)) or not _is_utf8(text):
        return None
    types = _choose_types(schema, lines[0])
    if types is None:
        return None
    options = pyarrow.json.ParseOptions(
        explicit_schema=pa.schema(list(types.items())), unexpected_field_behavior="error"
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
    columns = convert_columns(schema, rows)
    if columns is None:
        return None
    undeclared = rows.select(schema.undeclared_fields(types))
    if any(column.null_count for column in undeclared.columns):
        return None  # null or missing: stored differently
    return pa.table({**columns, "_extra": extra_column(undeclared)})


def _is_one_flat_object_per_line(text: bytes, line_count: int) -> bool:
    """Whether each line is one object without nested values, if Arrow reads as many as lines.

    Then each closing brace ends an object, as there are no more of them, and each line has one, at
    its end. So no object ends inside a line or continues on the next one.
    """
    is_line_by_line = (
        text.startswith(b"{")
        and text.endswith(b"}")
        and text.count(b"\n") == text.count(b"}\n{") == line_count - 1
        and text.count(b"}") == line_count
        and b"\0" not in text  # ends the text for some parsers
    )
    if not is_line_by_line:
        return False
    has_other_brackets = b"[" in text or text.count(b"{") > line_count
    return not (has_other_brackets and _NESTED_VALUE.search(text))


def _is_utf8(text: bytes) -> bool:
    if text.isascii():
        return True
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _choose_types(schema: StreamSchema, first_line: bytes) -> dict[str, pa.DataType] | None:
    """The types to read the fields as; None if Arrow has none for a value of the first line."""
    try:
        record: dict[str, Any] = orjson.loads(first_line)
    except orjson.JSONDecodeError:
        return None
    types: dict[str, pa.DataType] = {}
    for name, kind in schema.columns.items():
        if sum(field in record for field in schema.fields_of(name)) > 1:
            return None  # another record may have only the second one
        types_by_value = _READ_TYPES[kind]
        field = schema.present_field(name, record) or schema.fields_of(name)[0]
        value = record.get(field)
        if value is None:
            read_type = next(iter(types_by_value.values()))
        elif type(value) in types_by_value:
            read_type = types_by_value[type(value)]
        else:
            return None
        if types.setdefault(field, read_type) != read_type:
            return None  # two columns read one field as different types
    for name in schema.undeclared_fields(record):
        if type(record[name]) not in _UNDECLARED_TYPES:
            return None
        types[name] = _UNDECLARED_TYPES[type(record[name])]
    return types
