"""The values of declared columns in records, and the fields that no column reads. No I/O."""

from collections.abc import Mapping, Sequence
from typing import Any

from archiver.delta import StreamSchema
from archiver.formats import MISSING, find_first, find_value, is_path, without_fields


def has_plain_fields(schema: StreamSchema) -> bool:
    """Whether each column is read from the field of its name."""
    return not schema.fields and not schema.time_reading.parts


def column_values(schema: StreamSchema, name: str, records: Sequence[dict[str, Any]]) -> list[Any]:
    """The values of a column, from the first of its fields that a record has."""
    if name == schema.time and schema.time_reading.parts:
        return [_join_parts(record, schema.time_reading.parts) for record in records]
    fields = schema.fields_of(name)
    if len(fields) == 1 and not is_path(fields[0]):
        return [record.get(fields[0]) for record in records]
    values: list[Any] = []
    for record in records:
        first = find_first(record, fields)
        values.append(None if first is None else first[1])
    return values


def value_field(schema: StreamSchema, name: str, record: Mapping[str, Any]) -> str | None:
    """The field that the value of a column comes from; None: the record has none, or several."""
    if name == schema.time and schema.time_reading.parts:
        return None
    first = find_first(record, schema.fields_of(name))
    return None if first is None else first[0]


def extra_fields(schema: StreamSchema, record: dict[str, Any]) -> dict[str, Any]:
    """The fields of a record that no column reads."""
    if has_plain_fields(schema):
        if record.keys() <= schema.columns.keys():
            return {}
        return {name: value for name, value in record.items() if name not in schema.columns}
    return without_fields(record, read_fields(schema, record))


def read_fields(schema: StreamSchema, record: Mapping[str, Any]) -> list[str]:
    """The fields of a record that columns are read from, as they are declared."""
    fields: list[str] = []
    for name in schema.columns:
        if name == schema.time and schema.time_reading.parts:
            parts = schema.time_reading.parts
            fields += [part for part in parts if find_value(record, part) is not MISSING]
            continue
        first = find_first(record, schema.fields_of(name))
        if first is not None:
            fields.append(first[0])
    return fields


def _join_parts(record: Mapping[str, Any], parts: Sequence[str]) -> Any:
    """The texts of some fields with blanks between; None unless all are there."""
    texts: list[str] = []
    for part in parts:
        value = find_value(record, part)
        if value is MISSING or value is None:
            return None
        texts.append(value if isinstance(value, str) else str(value))
    return " ".join(texts)
