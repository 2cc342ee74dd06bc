"""Read lines of CSV at once, if Arrow's reader and the line decoder return the same rows."""

import csv
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from archiver.delta import StreamSchema
from archiver.formats import RecordReading
from archiver.ingest.decoding.column_values import convert_columns, extra_column
from archiver.ingest.decoding.csv_records import regular_record
from archiver.ingest.decoding.records import MAX_LINE_BYTES

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_csv_block(
    schema: StreamSchema, reading: RecordReading, lines: Sequence[bytes]
) -> pa.Table | None:
    """The rows of the lines; None unless the line decoder would return the same ones."""
    header = reading.fields or ()
    dialect = reading.format.csv
    if dialect.quote not in (None, '"') or dialect.escape is not None:
        return None
    if len(set(header)) < len(header) or not header:
        return None
    text = b"\n".join(lines)
    if not _is_one_record_per_line(text, lines):
        return None
    has_quotes = dialect.quote is not None and b'"' in text
    try:
        if has_quotes and not _has_regular_quotes(lines, dialect.delimiter):
            return None
        rows = pyarrow.csv.open_csv(
            pa.BufferReader(text),
            # A block is read as a whole: the reader divides longer texts.
            read_options=pyarrow.csv.ReadOptions(
                block_size=2 * MAX_LINE_BYTES, column_names=list(header)
            ),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=dialect.delimiter,
                quote_char='"' if has_quotes else False,
                ignore_empty_lines=False,
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(header, pa.string()),
                null_values=["", *dialect.null_values],
                strings_can_be_null=True,
            ),
        ).read_next_batch()
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return None
    if len(rows) != len(lines):
        return None
    fields = dict(zip(header, rows.columns, strict=True))
    values: dict[str, pa.Array] = {}
    for name in schema.columns:
        present = schema.present_fields(name, fields)
        if len(present) > 1:
            return None  # the first that is not empty
        if present:
            values[name] = fields[present[0]]
    parts = schema.time_reading.parts
    if parts:
        if not set(parts) <= fields.keys():
            return None
        values[schema.time] = pc.binary_join_element_wise(*(fields[part] for part in parts), " ")
    columns = convert_columns(schema, reading, values, len(rows))
    if columns is None:
        return None
    undeclared = {name: fields[name] for name in schema.undeclared_fields(header)}
    extra = extra_column(undeclared, len(rows))
    return None if extra is None else pa.table({**columns, "_extra": extra})


def _is_one_record_per_line(text: bytes, lines: Sequence[bytes]) -> bool:
    """Whether Arrow's reader and the line decoder see the same lines."""
    return (
        all(lines)
        and text.count(b"\n") == len(lines) - 1
        and b"\r" not in text
        and b"\0" not in text
        and not text.startswith(_BYTE_ORDER_MARK)
    )


def _has_regular_quotes(lines: Sequence[bytes], delimiter: str) -> bool:
    if max(map(len, lines)) > csv.field_size_limit():
        return False
    texts = pa.array(lines, pa.string())
    return bool(pc.all(pc.match_substring_regex(texts, regular_record(delimiter))).as_py())
