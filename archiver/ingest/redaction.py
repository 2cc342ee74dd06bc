"""The content of posted and ingested batches without secrets, before it is written. No I/O."""

import io
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq

from archiver.delta import StreamSchema
from archiver.formats import Format, RecordReading, find_value
from archiver.ingest.decoding import dump_json, load_json, redact_records, redact_row
from archiver.ingest.source_text import find_encoding_mark, iterate_blocks
from archiver.ingest.source_units import csv_fields
from archiver.ingest.text_records import split_records


def redact_content(schema: StreamSchema, record_format: Format, content: bytes) -> bytes:
    """The decompressed content of a batch as it may be written. Raises `SourceDamaged`."""
    if not schema.redactions:
        return content
    if record_format.is_table:
        return _redact_parquet(schema, content)
    encoding = find_encoding_mark(content) or record_format.encoding
    text = b"".join(iterate_blocks(io.BytesIO(content), record_format.encoding))
    if record_format.has_documents:
        redacted = _redact_documents(schema, record_format, text)
    else:
        redacted = _redact_lines(schema, record_format, text)
    if encoding is None:
        return redacted
    return redacted.decode("utf-8", "surrogateescape").encode(encoding, "surrogateescape")


def _redact_lines(schema: StreamSchema, record_format: Format, text: bytes) -> bytes:
    records = [record.text for record in split_records(text, record_format)]
    header: list[bytes] = []
    fields: Sequence[str] | None = None
    if record_format.is_csv:
        dialect = record_format.csv
        if dialect.header:
            header, records = records[:1], records[1:]
        fields = dialect.names or (csv_fields(header[0], dialect) if header else schema.field_names)
    reading = RecordReading(record_format, None if fields is None else tuple(fields))
    lines = [*header, *redact_records(schema, reading, records)]
    return b"".join(line + b"\n" for line in lines)


def _redact_documents(schema: StreamSchema, record_format: Format, text: bytes) -> bytes:
    """JSON documents, whose rows are at a path or are the documents."""
    try:
        document = load_json(text)
    except ValueError:
        return _redact_lines(schema, replace(record_format, records=None), text)
    rows = document
    if record_format.records is not None:
        rows = find_value(document, record_format.records)
    for row in rows if isinstance(rows, list) else [document]:
        if isinstance(row, dict):
            row |= redact_row(schema, row)
    return dump_json(document)


def _redact_parquet(schema: StreamSchema, content: bytes) -> bytes:
    table = pq.read_table(pa.BufferReader(content))
    rows = table.to_pylist()
    redacted = [redact_row(schema, row) for row in rows]
    target = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(redacted, schema=table.schema), target)
    return target.getvalue()
