"""Read records of text at once, if the line decoder returns the same rows. No I/O."""

from collections.abc import Sequence

import pyarrow as pa

from archiver.delta import StreamSchema
from archiver.formats import RecordReading, is_path
from archiver.ingest.decoding.column_values import convert_columns, extra_column
from archiver.ingest.decoding.records import MAX_LINE_BYTES, MAX_RECORD_LINES
from archiver.ingest.decoding.text_reader import read_texts
from archiver.times import duration_to_micros


def read_text_block(
    schema: StreamSchema, reading: RecordReading, lines: Sequence[bytes]
) -> pa.Table | None:
    """The rows of the lines; None unless the line decoder would return the same ones."""
    if schema.time_reading.parts or not all(map(bytes.strip, lines)):
        return None
    longest = max(map(len, lines))
    if longest > MAX_LINE_BYTES or (
        longest > MAX_RECORD_LINES and any(map(_has_many_lines, lines))
    ):
        return None
    try:
        b"\n".join(lines).decode("utf-8")
        texts = pa.array(lines, pa.string())
    except UnicodeDecodeError:
        return None
    future = duration_to_micros(schema.future)
    fields = read_texts(reading, texts, future, schema.time_reading.zone)
    columns = fields.columns
    if not fields.is_match.all() or "json" in columns:
        return None
    values: dict[str, pa.Array] = {}
    read_fields: set[str] = set()
    for name in schema.columns:
        candidates = schema.fields_of(name)
        if len(candidates) > 1 or is_path(candidates[0]):
            return None  # another record may have another one of them
        if candidates[0] in columns:
            values[name] = columns[candidates[0]]
            read_fields.add(candidates[0])
    converted = convert_columns(schema, reading, values, len(lines))
    if converted is None:
        return None
    undeclared = {name: column for name, column in columns.items() if name not in read_fields}
    extra = extra_column(undeclared, len(lines), is_sparse=True)
    return pa.table({**converted, "_extra": extra})


def _has_many_lines(record: bytes) -> bool:
    return record.count(b"\n") >= MAX_RECORD_LINES
