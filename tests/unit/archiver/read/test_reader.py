"""Readers of streams with and without a table; see also the property tests of rows in memory."""

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from archiver.delta.schema import StreamSchema
from archiver.delta.table import StreamTable
from archiver.read.present_rows import PresentRows
from archiver.read.reader import Reader, SnapshotReader, _filter_rows
from archiver.time_range import ALL_TIME, TimeRange
from tests.property.test_present_rows import SCHEMA, make_rows


def test_stream_without_a_table_is_empty_until_it_is_created(tmp_path: Path) -> None:
    reader = Reader(tmp_path, [SCHEMA])
    assert reader.snapshot("s").table is None
    assert reader.snapshot("s").lease_paths() == []
    assert reader.local_paths("s") == []
    StreamTable(tmp_path, SCHEMA).append(make_rows(0, 7, 0, 0), 0)
    assert len(reader.snapshot("s").lease_paths()) == 1


def test_appended_rows_are_seen_after_refresh(tmp_path: Path) -> None:
    table, reader = StreamTable(tmp_path, SCHEMA), Reader(tmp_path, [SCHEMA])
    assert reader.snapshot("s").append_count == 0
    table.append(make_rows(0, 7, 0, 0), 0)
    assert reader.snapshot("s").append_count == 0
    reader.refresh({"other"})
    assert reader.snapshot("s").append_count == 0
    reader.refresh({"s"})
    assert reader.snapshot("s").append_count == 1


def test_files_are_selected_by_chunk_and_time(tmp_path: Path) -> None:
    table = StreamTable(tmp_path, SCHEMA)
    table.append(make_rows(0, 4, 0, 0), 0)
    table.append(make_rows(4, 4, 1, 4), 1)
    reader = SnapshotReader(Reader(tmp_path, [SCHEMA]))
    reader.acquire({"s": ALL_TIME})
    all_paths = reader.local_paths("s")
    first_path = reader.local_paths("s", chunk=0)
    assert len(all_paths) == 2 and len(first_path) == 1
    assert reader.local_paths("s", TimeRange(None, 2_000_000)) == first_path
    assert reader.local_paths("s", TimeRange(2_000_000), chunk=0) == []


def test_another_reader_can_serve_a_stream(tmp_path: Path) -> None:
    derived = StreamSchema(
        "derived", {"ts": "timestamp"}, "ts", None, (), timedelta(0), timedelta(0)
    )
    reader = SnapshotReader(Reader(tmp_path / "a", [SCHEMA]))
    with pytest.raises(KeyError):
        reader.schema("derived")
    reader.readers_by_stream["derived"] = Reader(tmp_path / "b", [derived])
    assert reader.schema("derived") == derived
    assert reader.schema("s") == SCHEMA


def test_rows_in_memory_are_filtered_by_time_lateness_and_values() -> None:
    rows = make_rows(0, 10, 0, 0)

    def numbers(*bounds: int | None, include_late: bool = True, **values: list[str]) -> list[int]:
        time_range = TimeRange(*bounds)
        selected: pa.Table = _filter_rows(rows, SCHEMA, time_range, include_late, values)
        assert selected.column_names == list(SCHEMA.query_columns)
        return [int(number) for number in selected["n"].to_pylist()]

    assert numbers(1_000_000, 3_000_000) == [2, 3, 4, 5]
    assert numbers(None, 3_000_000, include_late=False) == [1, 2, 3, 4]
    assert numbers(None, None, host=["h1"]) == [1, 4, 7]


def _schema(name: str) -> StreamSchema:
    return StreamSchema(name, {"ts": "timestamp"}, "ts", None, (), timedelta(0), timedelta(0))


def test_snapshot_reader_lists_its_streams_and_those_of_other_readers(tmp_path: Path) -> None:
    reader = SnapshotReader(Reader(tmp_path, [_schema("cpu"), _schema("ping")]))
    assert set(reader.streams) == {"cpu", "ping"}
    reader.readers_by_stream["load"] = Reader(tmp_path, [_schema("load")])
    assert set(reader.streams) == {"cpu", "ping", "load"}
    assert reader.schema("load").name == "load"


def test_snapshot_reader_has_every_attribute_of_a_reader(tmp_path: Path) -> None:
    reader = Reader(tmp_path, [_schema("cpu")])
    assert vars(SnapshotReader(reader)).keys() >= vars(reader).keys()


def test_rows_in_memory_are_loaded_again_only_after_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, reader = StreamTable(tmp_path, SCHEMA), Reader(tmp_path, [SCHEMA], 1 << 20)
    table.append(make_rows(0, 7, 0, 0), 0)
    loads: list[set[int]] = []
    refresh = PresentRows.refresh

    def count(rows: PresentRows, tables: list[StreamTable], chunks: set[int]) -> None:
        loads.append(chunks)
        refresh(rows, tables, chunks)

    monkeypatch.setattr(PresentRows, "refresh", count)
    changed = [reader.refresh_present(chunks) for chunks in ({0}, {0}, {0, 1}, {0, 1})]
    assert changed == [True, False, True, False]
    assert loads == [{0}, {0, 1}]
    table.append(make_rows(7, 9, 0, 0), 0)
    assert reader.refresh_present({0, 1})
    assert len(loads) == 3
    snapshot = reader.snapshot("s")
    assert snapshot.lease_paths() == [] and sum(map(len, snapshot.rows)) == 16
