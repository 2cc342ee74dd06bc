"""The content of posted and ingested batches without secrets, before it is written. No I/O."""

import io
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from archiver.delta import StreamSchema
from archiver.errors import SourceDamaged
from archiver.formats import (
    MISSING,
    Format,
    RecordReading,
    find_value,
    parse_path,
    redact_value,
    replace_value,
)
from archiver.ingest.decoding import (
    dump_json,
    load_json,
    redact_names,
    redact_records,
    redact_row,
    write_csv,
)
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
    if header and fields and len(set(fields)) == len(fields):
        names = redact_names(schema, fields)
        if names is not None and list(names) != list(fields):
            header = [write_csv(names, record_format.csv)]
    lines = [*header, *redact_records(schema, reading, records)]
    return b"".join(line + b"\n" for line in lines)


def _redact_documents(schema: StreamSchema, record_format: Format, text: bytes) -> bytes:
    """One JSON document or several, whose rows are at a path or are the documents."""
    return b"\n".join(
        _redact_document(schema, record_format, document)
        for document in _split_documents(record_format, text)
    )


def _split_documents(record_format: Format, text: bytes) -> list[bytes]:
    """The documents of a text; the text itself if they are not complete."""
    with suppress(ValueError):
        load_json(text)
        return [text]
    with suppress(SourceDamaged):
        return [record.text for record in split_records(text, replace(record_format, records=None))]
    return [text]


def _redact_document(schema: StreamSchema, record_format: Format, text: bytes) -> bytes:
    try:
        document = load_json(text)
    except ValueError:
        return redact_records(schema, RecordReading(record_format), [text])[0]
    path = record_format.records
    redacted = (
        _redact_rows(schema, document) if path is None else _redact_at(schema, document, path)
    )
    return text if redacted == document else dump_json(redacted)


def _redact_at(schema: StreamSchema, document: Any, path: str) -> Any:
    """A document: its rows by their columns, what is around them as undeclared fields are."""
    if isinstance(document, list):
        return [_redact_at(schema, inner, path) for inner in document]
    redacted = redact_value(document, schema.redactions, (path, *map(str, parse_path(path))))
    if isinstance(document, dict):
        rows = find_value(document, path)
        if rows is not MISSING:
            replace_value(redacted, path, _redact_rows(schema, rows))
    return redacted


def _redact_rows(schema: StreamSchema, rows: Any) -> Any:
    if isinstance(rows, list):
        return [_redact_rows(schema, row) for row in rows]
    return (
        redact_row(schema, rows)
        if isinstance(rows, dict)
        else redact_value(rows, schema.redactions)
    )


def _redact_parquet(schema: StreamSchema, content: bytes) -> bytes:
    table = pq.read_table(pa.BufferReader(content))
    rows = table.to_pylist()
    redacted = [redact_row(schema, row) for row in rows]
    target = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(redacted, schema=table.schema), target)
    return target.getvalue()
