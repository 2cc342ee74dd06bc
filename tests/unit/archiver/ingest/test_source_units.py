"""Batches of a unit: line numbers, headers, and units that cannot be read to their end."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from archiver.delta.schema import StreamSchema
from archiver.errors import SourceDamaged
from archiver.formats import CSV, JSONL, PARQUET, Format
from archiver.ingest import open_file, source_units
from archiver.ingest.source_units import SourceUnit, UnitBatch, read_batches, read_units

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


def _file_unit(folder: Path, name: str, content: bytes, record_format: Format) -> SourceUnit:
    path = folder / name
    path.write_bytes(content)
    read = open_file(record_format, path)
    return SourceUnit("s", name, record_format, read, path=path, size=len(content))


def test_small_files_that_are_read_together_have_the_records_of_each(tmp_path: Path) -> None:
    contents = {
        "a.jsonl": (line(1) + b"\n{\n\n" + line(2), JSONL),
        "empty.jsonl": (b"", JSONL),
        "b.csv": (b"ts,n\n2026-01-01T00:00:00Z,3\nx\n", CSV),
        "c.csv": (b"n,ts\n4,2026-01-01T00:00:00Z\n", CSV),
        "no header.csv": (b"", CSV),
        "d.jsonl": (b"\n" + line(5), JSONL),
        "large.jsonl": (line(6) + b"\n" * 70_000, JSONL),
        "e.jsonl": (line(7), JSONL),
    }
    units = [_file_unit(tmp_path, name, *content) for name, content in contents.items()]
    (tmp_path / "d.jsonl").unlink()  # it is damaged
    together = map(list, read_units([(unit, 1) for unit in units], SCHEMA))
    for unit, batches in zip(units, together, strict=True):
        alone = list(read_batches(unit, SCHEMA, 1))
        assert len(batches) == len(alone), unit.name
        for batch, expected in zip(batches, alone, strict=True):
            assert batch.records_read == expected.records_read
            assert batch.rows.table.equals(expected.rows.table)
            assert batch.rows.line_numbers.tolist() == expected.rows.line_numbers.tolist()
            assert list(batch.rows.raw) == list(expected.rows.raw)
            assert batch.rows.refused_lines == expected.rows.refused_lines
            assert batch.reading == expected.reading


def test_a_csv_file_that_is_damaged_in_the_middle_keeps_its_header() -> None:
    def lines() -> Iterator[bytes]:
        yield b"ts,n"
        yield b"2026-01-01T00:00:00Z,1"
        raise SourceDamaged("the file ends")

    batches = read(SourceUnit("s", "u", CSV, lines))
    assert [batch.reading.fields for batch in batches] == [("ts", "n")] * 2
    assert [refused.detail for refused in batches[1].rows.refused_lines] == ["the file ends"]
