"""Records without secrets: what is written of them before they are rows, or if they never are.

The fields of a record are redacted as their columns will be, undeclared ones by the redactions of
all columns. A malformed record has no fields: it is searched as text.
"""

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from archiver.delta import StreamSchema
from archiver.formats import (
    CsvDialect,
    Format,
    RecordReading,
    Redactions,
    find_value,
    redact_text,
    redact_value,
    replace_value,
)
from archiver.ingest.decoding import (
    RefusedLine,
    decode_lines,
    dump_json,
    load_json,
    parse_records,
)
from archiver.ingest.decoding.csv_records import reader_options
from archiver.ingest.decoding.field_values import value_field
from archiver.ingest.decoding.json_records import parse_json
from archiver.ingest.source_text import find_encoding_mark, iterate_blocks
from archiver.ingest.source_units import csv_fields
from archiver.ingest.text_records import split_records

_JSON_FORMATS = ("jsonl", "json", "docker")
_UNKNOWN_REASON = "refused before it was redacted"


def redact_records(
    schema: StreamSchema, reading: RecordReading, records: Sequence[bytes]
) -> list[bytes]:
    """Records as they may be written before they are decoded."""
    if not schema.redactions:
        return list(records)
    return _redact_records(_Redactor(schema), reading, records)


def _redact_records(
    redactor: "_Redactor", reading: RecordReading, records: Sequence[bytes]
) -> list[bytes]:
    parsed = parse_records(reading, records, 0)
    return [
        redactor.redact_record(reading, record, fields)
        for record, fields in zip(records, parsed, strict=True)
    ]


def redact_refused(
    schema: StreamSchema, reading: RecordReading, lines: Sequence[RefusedLine]
) -> list[RefusedLine]:
    """Refused lines as they may be written: the reason quotes what is redacted."""
    if not schema.redactions:
        return list(lines)
    if reading.format.is_table:
        reading = RecordReading(Format("jsonl"))
    redacted_lines: list[RefusedLine] = []
    redactor = _Redactor(schema, is_refused=True)
    records = _redact_records(redactor, reading, [line.raw for line in lines])
    for line, record in zip(lines, records, strict=True):
        detail = line.detail
        if record != line.raw and line.reason == "malformed":
            refused = decode_lines(schema, reading, [record], 0).refused_lines
            detail = refused[0].detail if refused else _UNKNOWN_REASON
        redacted_lines.append(replace(line, raw=record, detail=detail))
    return redacted_lines


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
    redactor = _Redactor(schema)
    rows = document
    if record_format.records is not None:
        rows = find_value(document, record_format.records)
    for row in rows if isinstance(rows, list) else [document]:
        if isinstance(row, dict):
            row |= redactor.redact_fields(row)
    return dump_json(document)


def _redact_parquet(schema: StreamSchema, content: bytes) -> bytes:
    table = pq.read_table(pa.BufferReader(content))
    rows = table.to_pylist()
    redacted = list(map(_Redactor(schema).redact_fields, rows))
    target = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(redacted, schema=table.schema), target)
    return target.getvalue()


class _Redactor:
    """Redacts records of a stream.

    `is_refused`: a value that is no text may be what another column should have had.
    """

    def __init__(self, schema: StreamSchema, is_refused: bool = False) -> None:
        self._schema = schema
        self._all = schema.redactions
        self._by_column: dict[str, Redactions] = {}
        for name, kind in schema.columns.items():
            own = [redaction for redaction in schema.redactions if redaction.column == name]
            self._by_column[name] = self._all if is_refused and kind != "string" else own

    def redact_record(
        self, reading: RecordReading, record: bytes, fields: dict[str, Any] | str
    ) -> bytes:
        """A record; `fields`: those that its format reads, or why it reads none."""
        if isinstance(fields, str):
            return self._redact_as_text(record)
        name = reading.format.name
        if name in _JSON_FORMATS:
            fields = parse_json(record)
        redacted = self.redact_fields(fields)
        if redacted == fields:
            return record
        if name in _JSON_FORMATS:
            return dump_json(redacted)
        if reading.format.is_csv:
            values = [redacted[field] for field in reading.fields or ()]
            return _write_csv(values, reading.format.csv)
        return self._replace_texts(record, fields, redacted)

    def redact_fields(self, record: dict[str, Any]) -> dict[str, Any]:
        """The fields: those of a column by its own redactions, others by all of them."""
        redacted: dict[str, Any] = redact_value(record, self._all)
        for column, own in self._by_column.items():
            field = value_field(self._schema, column, record)
            if field is not None:
                replace_value(redacted, field, redact_value(find_value(record, field), own))
        return redacted

    def _redact_as_text(self, record: bytes) -> bytes:
        text = record.decode("utf-8", "replace")
        redacted = redact_text(text, self._all)
        return record if redacted == text else redacted.encode()

    def _replace_texts(
        self, record: bytes, fields: dict[str, Any], redacted: dict[str, Any]
    ) -> bytes:
        """A record of text with the changed fields replaced where they are in it."""
        for name, value in fields.items():
            text, replacement = str(value).encode(), str(redacted[name]).encode()
            if text == replacement:
                continue
            if text not in record:  # it is written in another way, with escapes for example
                return self._redact_as_text(record)
            record = record.replace(text, replacement)
        return record


def _write_csv(values: Sequence[str | None], dialect: CsvDialect) -> bytes:
    target = io.StringIO()
    options = {**reader_options(dialect), "lineterminator": ""}
    csv.writer(target, **options).writerow(["" if value is None else value for value in values])
    return target.getvalue().encode()
