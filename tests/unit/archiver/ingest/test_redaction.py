"""What may be written of records with secrets."""

from dataclasses import replace
from datetime import timedelta

from archiver.delta.schema import StreamSchema
from archiver.formats import CSV, CsvDialect, Format, Redaction
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


def test_rows_inside_of_documents_are_redacted() -> None:
    content = b'{"items":[{"note":"key-1"},{"auth":{"token":"t"}}]}'
    redacted = redact_content(SCHEMA, Format("json", records="items"), content)
    assert redacted == b'{"items":[{"note":"key"},{"auth":{"token":"***"}}]}'


def test_other_encodings_stay() -> None:
    schema = replace(SCHEMA, fields={}, redactions=SCHEMA.redactions[1:])
    content = f"ts,note\n{TEN},é key-1\n".encode("latin-1")
    redacted = redact_content(schema, replace(CSV, encoding="latin-1"), content)
    assert redacted == f"ts,note\n{TEN},é key\n".encode("latin-1")
