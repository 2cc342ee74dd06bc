"""Records without secrets: what is written of them before they are rows, or if they never are.

The fields of a record are redacted as their columns will be, undeclared ones by the redactions of
all columns. A malformed record has no fields: it is searched as text. No I/O.
"""

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from archiver.delta import StreamSchema
from archiver.formats import (
    JSONL,
    CsvDialect,
    RecordReading,
    Redactions,
    find_value,
    parse_path,
    redact_number,
    redact_text,
    redact_value,
    replace_value,
)
from archiver.ingest.decoding.csv_records import reader_options
from archiver.ingest.decoding.field_values import value_field
from archiver.ingest.decoding.json_records import dump_json, parse_json, without_marks
from archiver.ingest.decoding.line_decoder import decode_lines
from archiver.ingest.decoding.record_parsers import parse_records
from archiver.ingest.decoding.records import RefusedLine

_JSON_FORMATS = ("jsonl", "json", "docker")
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")
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
    parsed = parse_records(reading, records, 0, has_positions=redactor.has_positions)
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
        reading = RecordReading(JSONL)
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


def redact_names(schema: StreamSchema, names: Sequence[str] | None) -> Sequence[str] | None:
    """The field names of CSV: a row may be taken for a header. None: of other formats."""
    if names is None or not schema.redactions:
        return names
    return list(redact_row(schema, dict.fromkeys(names)))


def redact_row(schema: StreamSchema, row: dict[str, Any]) -> dict[str, Any]:
    """The fields of one record."""
    return _Redactor(schema).redact_fields(row)


class _Redactor:
    """Redacts records of a stream.

    `is_refused`: a value that is no text may be what another column should have had.
    """

    def __init__(self, schema: StreamSchema, is_refused: bool = False) -> None:
        self._schema = schema
        self._all = schema.redactions
        self._by_column: dict[str, Redactions] = {}
        self._declared_names: set[str] = set()
        self.has_positions = schema.has_positions
        for name, kind in schema.columns.items():
            own = [redaction for redaction in schema.redactions if redaction.column == name]
            self._by_column[name] = self._all if is_refused and kind != "string" else own
            for path in schema.fields_of(name):
                self._declared_names.update((path, *map(str, parse_path(path))))

    def redact_record(
        self, reading: RecordReading, record: bytes, fields: dict[str, Any] | str
    ) -> bytes:
        """A record; `fields`: those that its format reads, or why it reads none."""
        if isinstance(fields, str):
            return self._redact_as_text(record)
        name = reading.format.name
        if name in _JSON_FORMATS:
            fields = parse_json(record, has_positions=self.has_positions)
        redacted = self.redact_fields(fields)
        if redacted == fields:
            return record
        if name in _JSON_FORMATS:
            is_array = without_marks(record).lstrip().startswith(b"[")
            return dump_json(list(redacted.values()) if is_array else redacted)
        if reading.format.is_csv:
            return write_csv(list(redacted.values()), reading.format.csv)
        return self._replace_texts(record, fields, redacted)

    def redact_fields(self, record: dict[str, Any]) -> dict[str, Any]:
        """The fields: those of a column by its own redactions, others by all of them."""
        redacted: dict[str, Any] = redact_value(record, self._all, self._declared_names)
        for column, own in self._by_column.items():
            field = value_field(self._schema, column, record)
            if field is not None:
                value = find_value(record, field)
                if not isinstance(value, int | float) or isinstance(value, bool):
                    value = redact_value(value, own, self._declared_names)
                elif self._schema.columns[column] == "string":
                    value = redact_number(value, own)
                replace_value(redacted, field, value)
        return redacted

    def _redact_as_text(self, record: bytes) -> bytes:
        text = record.decode("utf-8", "replace")
        for readable in (_unescape(text), text):
            redacted = redact_text(readable, self._all)
            if redacted != readable:
                return redacted.encode("utf-8", "replace")
        return record

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


def _unescape(text: str) -> str:
    """A text without escapes of JSON that hide a secret: `https:\\/\\/user:password\\u0040host`."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text).replace("\\/", "/")


def write_csv(values: Sequence[str | None], dialect: CsvDialect) -> bytes:
    """A record of CSV."""
    target = io.StringIO()
    options = {**reader_options(dialect), "lineterminator": ""}
    csv.writer(target, **options).writerow(["" if value is None else value for value in values])
    return target.getvalue().encode()
