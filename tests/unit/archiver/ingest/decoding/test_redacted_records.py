"""What may be written of records with secrets."""

from dataclasses import replace
from datetime import timedelta

import pytest

from archiver.delta.schema import StreamSchema
from archiver.formats import JSONL, Format, RecordReading, Redaction
from archiver.ingest.decoding import RefusedLine, decode_blocks, redact_records, redact_refused

ZERO = timedelta(0)
# The whole column, and a part of others.
SCHEMA = StreamSchema(
    "s",
    {"ts": "timestamp", "token": "string", "note": "string"},
    "ts",
    None,
    (),
    ZERO,
    ZERO,
    fields={"token": ("auth.token",)},
    redactions=(Redaction("token", "^.+$", "***"), Redaction("note", r"key-\w+", "key")),
)
TEN = "2026-11-20T10:00:00Z"


def redact(record: bytes, record_format: Format = JSONL) -> bytes:
    return redact_records(SCHEMA, RecordReading(record_format), [record])[0]


def test_fields_of_json_are_redacted_as_their_columns() -> None:
    record = (
        b'{"ts":"%b","auth":{"token":"abc","n":1},"note":"a key-7","by":"key-7"}' % TEN.encode()
    )
    assert redact(record) == (
        b'{"ts":"%b","auth":{"token":"***","n":1},"note":"a key","by":"***"}' % TEN.encode()
    )


def test_elements_of_arrays_are_redacted_as_their_columns() -> None:
    schema = replace(SCHEMA, fields={"ts": ("[0]",), "token": ("[1].t",), "note": ("[2]",)})
    record = b'["%b",{"t":"abc"},"a key-7",1]' % TEN.encode()
    assert redact_records(schema, RecordReading(JSONL), [record]) == [
        b'["%b",{"t":"***"},"a key",1]' % TEN.encode()
    ]


def test_records_without_secrets_stay_as_they_are() -> None:
    schema = replace(SCHEMA, redactions=SCHEMA.redactions[1:])
    record = b'{ "ts": 1.50, "note": "x" }'
    assert redact_records(schema, RecordReading(JSONL), [record]) == [record]


def test_malformed_records_are_searched_as_text() -> None:
    schema = replace(SCHEMA, redactions=SCHEMA.redactions[1:])
    records = [b'{"note": "key-1', b"\xff key-2"]
    redacted = redact_records(schema, RecordReading(JSONL), records)
    assert redacted == [b'{"note": "key', "\ufffd key".encode()]


def test_fields_of_text_are_replaced_where_they_are() -> None:
    text = Format("text", pattern=r"(?P<ts>\S+) token=(?P<token>\S+) (?P<note>.*)")
    schema = replace(SCHEMA, fields={})
    line = f"{TEN} token=abc a key-9".encode()
    assert redact_records(schema, RecordReading(text), [line]) == [
        f"{TEN} token=*** a key".encode()
    ]


@pytest.mark.parametrize("count", [1, 2_000])
def test_rows_are_redacted_in_blocks_and_one_by_one(count: int) -> None:
    record = b'{"ts":"%b","auth.token":"abc","note":"a key-7","by":"key-7"}' % TEN.encode()
    rows = decode_blocks(SCHEMA, RecordReading(JSONL), [record] * count, 0).table.to_pylist()
    assert rows[-1]["token"] == "***" and rows[-1]["note"] == "a key"
    assert rows[-1]["_extra"] == '{"by":"***"}' and len(rows) == count


def test_refused_lines_and_their_reasons_hold_no_secret() -> None:
    schema = replace(SCHEMA, redactions=SCHEMA.redactions[1:])
    record = b'{"ts":"key-abc","note":"key-def"}'
    refused = decode_blocks(schema, RecordReading(JSONL), [record], 0).refused_lines
    assert "key-abc" in refused[0].detail
    (line,) = redact_refused(schema, RecordReading(JSONL), refused)
    assert line == RefusedLine(0, "malformed", line.detail, b'{"ts":"key","note":"key"}')
    assert "key-" not in line.detail
