"""What may be written of records with secrets."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import orjson
import pytest

from archiver.delta.schema import StreamSchema
from archiver.formats import CSV, JSONL, CsvDialect, Format, Redaction
from archiver.ingest.redaction import redact_content

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
CARDS = replace(
    SCHEMA,
    columns={"ts": "timestamp", "card": "string", "n": "bigint", "msg": "string"},
    fields={},
    redactions=(
        Redaction("card", r"\b\d{12}(\d{4})\b", r"x\1"),
        Redaction("msg", r"[\w.]+@[\w.]+", "[mail]"),
    ),
)
TEN = "2026-11-20T10:00:00Z"


def test_fields_of_csv_are_written_again() -> None:
    dialect = CsvDialect(delimiter=";")
    content = f'ts;token;note\n{TEN};"a ""b""";plain\n{TEN};;"key-1;x"\n'.encode()
    schema = replace(SCHEMA, fields={})
    assert redact_content(schema, Format("csv", csv=dialect), content).decode().splitlines() == [
        "ts;token;note",
        f"{TEN};***;plain",
        f'{TEN};;"key;x"',
    ]


def test_a_row_that_is_taken_for_a_header_is_redacted() -> None:
    content = f"{TEN},key-1,x\n{TEN},key-2,key-3\n".encode()
    schema = replace(SCHEMA, fields={}, redactions=SCHEMA.redactions[1:])
    redacted = redact_content(schema, CSV, content)
    assert redacted.decode().splitlines() == [f"{TEN},key,x", f"{TEN},key,key"]


def test_rows_inside_of_documents_are_redacted() -> None:
    content = b'{"items":[{"note":"key-1"},{"auth":{"token":"t"}}]}'
    redacted = redact_content(SCHEMA, Format("json", records="items"), content)
    assert redacted == b'{"items":[{"note":"key"},{"auth":{"token":"***"}}]}'


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ('{"note":"key-1","items":[]}', '{"note":"key","items":[]}'),
        # Several documents, in an array and one after the other; rows that are none.
        ('[{"items":[{"note":"key-1"}]}]', '[{"items":[{"note":"key"}]}]'),
        (
            '{"items":[]}{"x":"key-1","items":{"note":"key-1"}}',
            '{"items":[]}\n{"x":"key","items":{"note":"key"}}',
        ),
        ('{"items":["key-1"]}', '{"items":["key"]}'),
        # Names of undeclared fields; what has no secret stays as it was written.
        ('{"items":[{"key-1":1}]}', '{"items":[{"key":1}]}'),
        ('{"items":[{"n": 12345678901234567890123}]}', None),
        ('{"items":[{"note":"key-1', '{"items":[{"note":"key'),
    ],
)
def test_what_is_around_rows_is_redacted(document: str, expected: str | None) -> None:
    schema = replace(SCHEMA, fields={}, redactions=SCHEMA.redactions[1:])
    redacted = redact_content(schema, Format("json", records="items"), document.encode())
    assert redacted.decode() == (expected or document)


def test_other_encodings_stay() -> None:
    schema = replace(SCHEMA, fields={}, redactions=SCHEMA.redactions[1:])
    content = f"ts,note\n{TEN},é key-1\n".encode("latin-1")
    redacted = redact_content(schema, replace(CSV, encoding="latin-1"), content)
    assert redacted == f"ts,note\n{TEN},é key\n".encode("latin-1")


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (
            b'{"card":4111111111111111,"n":4111111111111111}',
            {"card": "x1111", "n": 4111111111111111},
        ),
        (b'{"amounts":[4111111111111111,7]}', {"amounts": ["x1111", 7]}),
        (b'{"seen":{"a@b.cc":1,"d@e.ff":2}}', {"seen": {"[mail]": 1, "[mail] 2": 2}}),
        (b'{"msg":"x","msg@x.yy":1}', {"msg": "x", "[mail]": 1}),
        (b'{"n":7,"card":"4111111111111111"}', {"n": 7, "card": "x1111"}),
    ],
)
def test_secrets_in_numbers_and_names_are_redacted(record: bytes, expected: Any) -> None:
    assert orjson.loads(redact_content(CARDS, JSONL, record)) == expected


@pytest.mark.parametrize(
    "record", [b'{"msg":"a\\u0040b.cc",', b'{"msg":"https:\\/\\/u:a@b.cc",', b'{"msg":"a@b.cc",']
)
def test_escapes_hide_no_secret_in_a_malformed_record(record: bytes) -> None:
    assert redact_content(CARDS, JSONL, record).count(b"[mail]") == 1
