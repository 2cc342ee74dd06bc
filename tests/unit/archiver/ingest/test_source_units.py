"""Batches of a unit: line numbers, headers, and units that cannot be read to their end."""

from collections.abc import Iterator, Sequence
from datetime import timedelta

import pyarrow as pa
import pytest

from archiver.delta.schema import StreamSchema
from archiver.errors import SourceDamaged
from archiver.formats import CSV, JSONL, PARQUET
from archiver.ingest import source_units
from archiver.ingest.source_units import SourceUnit, UnitBatch, read_batches

SCHEMA = StreamSchema(
    "s", {"ts": "timestamp", "n": "bigint"}, "ts", None, (), timedelta(0), timedelta(0)
)


def line(number: int) -> bytes:
    return b'{"ts": "2026-01-31T12:00:00Z", "n": %d}' % number


def json_unit(*lines: bytes, line_numbers: Sequence[int] | None = None) -> SourceUnit:
    return SourceUnit("s", "u", JSONL, lambda: iter(lines), line_numbers)


def read(unit: SourceUnit) -> list[UnitBatch]:
    return list(read_batches(unit, SCHEMA))


def test_blank_lines_are_skipped_but_numbered() -> None:
    (batch,) = read(json_unit(b"\xef\xbb\xbf" + line(1), b"", b"  ", line(4), b"{broken"))
    assert batch.records_read == 3
    assert batch.rows.line_numbers.tolist() == [1, 4]
    assert [refused.line for refused in batch.rows.refused_lines] == [5]


def test_blank_lines_do_not_shorten_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_units, "BATCH_RECORDS", 2)
    lines = [b"", b"", b"", line(1), b" ", b"\t", line(2), line(3), b""]
    batches = read(json_unit(*lines))
    assert [batch.rows.line_numbers.tolist() for batch in batches] == [[4, 7], [8]]


def test_given_line_numbers_are_used_and_blank_lines_are_records() -> None:
    (batch,) = read(json_unit(line(1), b"", line_numbers=[40, 41]))
    assert batch.records_read == 2
    assert batch.rows.line_numbers.tolist() == [40]
    assert [refused.line for refused in batch.rows.refused_lines] == [41]


def test_unit_is_read_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_units, "BATCH_RECORDS", 2)
    batches = read(json_unit(line(1), line(2), line(3), line(4), line(5)))
    assert [batch.rows.line_numbers.tolist() for batch in batches] == [[1, 2], [3, 4], [5]]


def test_first_line_of_a_csv_unit_is_its_header() -> None:
    lines = [b"n,ts", b"1,2026-01-31", b"2"]
    (batch,) = read(SourceUnit("s", "u", CSV, lambda: iter(lines)))
    assert batch.reading.fields == ("n", "ts")
    assert batch.rows.table["n"].to_pylist() == [1]
    assert batch.rows.line_numbers.tolist() == [2]
    assert [refused.line for refused in batch.rows.refused_lines] == [3]


def test_unreadable_rest_of_a_unit_is_one_malformed_record() -> None:
    def damaged_lines() -> Iterator[bytes]:
        yield line(1)
        yield line(2)
        raise SourceDamaged("unexpected end of the gzip file")

    first, last = read(SourceUnit("s", "u", JSONL, damaged_lines))
    assert first.rows.line_numbers.tolist() == [1, 2]
    assert last.records_read == 1
    (refused,) = last.rows.refused_lines
    assert (refused.line, refused.reason) == (3, "malformed")
    assert refused.detail == "unexpected end of the gzip file"


def test_rows_of_tables_are_numbered_through() -> None:
    times = pa.array([0, 1], pa.timestamp("us", tz="UTC"))
    tables = [pa.table({"ts": times, "n": [1, 2]}), pa.table({"ts": times, "n": [3, 4]})]
    batches = read(SourceUnit("s", "u", PARQUET, lambda: iter(tables)))
    assert [batch.rows.line_numbers.tolist() for batch in batches] == [[1, 2], [3, 4]]
