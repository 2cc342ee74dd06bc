"""Secrets are replaced before anything is written; rows stay the same rows when patterns change."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from archiver.delta.schema import StreamSchema
from archiver.formats import JSONL, RecordReading, Redaction
from archiver.ingest.decoding import redact_records
from archiver.ingest.engines import EngineMode
from tests.integration.test_repeated_deliveries import (
    archive,
    counters,
    declare,
    mode,
    root,
    write_csv,
    write_lines,
)
from tests.integration.test_units import SCHEMA, Archive

__all__ = ["archive", "mode", "root"]

PLAIN = replace(SCHEMA, columns={**SCHEMA.columns, "note": "string"})
STARS = replace(PLAIN, redactions=(Redaction("note", r"key-\w+", "***"),))
WORDS = replace(PLAIN, redactions=(Redaction("note", r"key-\w+", "[key]"),))
ROWS = [
    {"ts": "2026-01-01T01:00:00Z", "host": "a", "n": 1, "note": "uses key-1", "x": "key-2"},
    {"ts": "2026-01-01T01:00:00Z", "host": "b", "n": 2, "note": "no secret"},
]
BROKEN = b'{"ts": "2026-01-01T02:00:00Z", "host": "key-3"'


def redacted_lines(schema: StreamSchema) -> list[bytes]:
    """The lines as the server stores them."""
    lines = [json.dumps(row).encode() for row in ROWS]
    return redact_records(schema, RecordReading(JSONL), lines)


def written(archive: Archive) -> str:
    """All that was written of the records."""
    table = archive.writer.tables["cpu"]
    rows = table.read([*table.schema.columns, "_extra"]).to_pylist()
    letters = archive.connection.execute("SELECT detail, raw FROM dead_letters").fetchall()
    return repr([rows, [(detail, bytes(raw)) for detail, raw in letters]])


@pytest.mark.parametrize("identity", ["id", "row"])
def test_rows_stay_the_same_rows_when_patterns_change(
    archive: Archive, tmp_path: Path, mode: EngineMode, identity: str
) -> None:
    def change(schema: StreamSchema) -> StreamSchema:
        return schema if identity == "id" else replace(schema, id=None)

    for number, schema in enumerate((PLAIN, STARS, WORDS)):
        declare(archive, change(schema), mode)
        archive.ingest(write_lines(tmp_path, f"{number}.jsonl", *ROWS))
    assert counters(archive) == {"read": 6, "archived": 2, "duplicates": 4}
    # From a file they are read as they were then; posted rows are redacted already.
    declare(archive, change(STARS), mode)
    archive.ingest(write_lines(tmp_path, "posted.jsonl", *redacted_lines(STARS)))
    assert counters(archive) == {"read": 8, "archived": 2, "duplicates": 6}


def test_no_secret_is_written(archive: Archive, tmp_path: Path, mode: EngineMode) -> None:
    declare(archive, STARS, mode)
    invalid = {**ROWS[0], "n": "key-4"}
    archive.ingest(write_lines(tmp_path, "a.jsonl", *ROWS, BROKEN, invalid))
    conflict = {**ROWS[1], "note": "key-5"}
    archive.ingest(write_lines(tmp_path, "b.jsonl", conflict))
    assert counters(archive) == {"read": 5, "archived": 2, "malformed": 2, "conflicts": 1}
    text = written(archive)
    assert "uses ***" in text and "key-" not in text


def test_a_row_that_is_taken_for_a_header_is_redacted(
    archive: Archive, tmp_path: Path, mode: EngineMode
) -> None:
    declare(archive, STARS, mode)
    lines = [f"2026-01-01T01:00:00Z,a,1,key-{number}" for number in (1, 2)]
    archive.ingest(write_csv(tmp_path, "a.csv", *lines))
    assert counters(archive) == {"read": 1, "malformed": 1}
    fields = archive.connection.execute("SELECT fields FROM units").fetchone()
    assert "***" in repr(fields) and "key-" not in repr(fields) + written(archive)
