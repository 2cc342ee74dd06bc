"""Read lines of CSV at once, if Arrow's reader and the line decoder return the same rows."""

import csv
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from archiver.delta import StreamSchema
from archiver.ingest.decoding.column_values import convert_columns, extra_column
from archiver.ingest.decoding.line_decoder import MAX_LINE_BYTES

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Quotes are around whole fields. Readers differ in what they make of others.
_REGULAR_LINE = r'^(?:[^",]*|"(?:[^"]|"")*")(?:,(?:[^",]*|"(?:[^"]|"")*"))*$'


def read_csv_block(
    schema: StreamSchema, header: Sequence[str], lines: Sequence[bytes]
) -> pa.Table | None:
    """The rows of the lines; None unless the line decoder would return the same ones."""
    if len(set(header)) < len(header) or not header:
        return None
    text = b"\n".join(lines)
    if not _is_one_record_per_line(text, lines):
        return None
    has_quotes = b'"' in text
    try:
        if has_quotes and not _has_regular_quotes(lines):
            return None
        rows = pyarrow.csv.open_csv(
            pa.BufferReader(text),
            # A block is read as a whole: the reader divides longer texts.
            read_options=pyarrow.csv.ReadOptions(
                block_size=2 * MAX_LINE_BYTES, column_names=list(header)
            ),
            parse_options=pyarrow.csv.ParseOptions(
                quote_char='"' if has_quotes else False, ignore_empty_lines=False
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(header, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
            ),
        ).read_next_batch()
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return None
    if len(rows) != len(lines):
        return None
    columns = convert_columns(schema, rows)
    if columns is None:
        return None
    undeclared = rows.select(schema.undeclared_fields(header))
    return pa.table({**columns, "_extra": extra_column(undeclared)})


def _is_one_record_per_line(text: bytes, lines: Sequence[bytes]) -> bool:
    """Whether Arrow's reader and the line decoder see the same lines."""
    return (
        all(lines)
        and text.count(b"\n") == len(lines) - 1
        and b"\r" not in text
        and b"\0" not in text
        and not text.startswith(_BYTE_ORDER_MARK)
    )


def _has_regular_quotes(lines: Sequence[bytes]) -> bool:
    if max(map(len, lines)) > csv.field_size_limit():
        return False
    return bool(
        pc.all(pc.match_substring_regex(pa.array(lines, pa.string()), _REGULAR_LINE)).as_py()
    )
