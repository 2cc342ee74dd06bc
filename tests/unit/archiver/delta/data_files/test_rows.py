"""Layout of data files."""

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from archiver.delta.data_files import cast_to_fields, split_by_chunk, write_rows
from archiver.delta.schema import StreamSchema

SCHEMA = StreamSchema(
    "s", {"ts": "timestamp", "host": "string"}, "ts", None, ("host",), timedelta(0), timedelta(0)
)


@pytest.fixture
def rows() -> pa.Table:
    fields = [field for field in SCHEMA.arrow_schema() if field.name != "chunk"]
    ts = pa.array([3, 1, 2], pa.timestamp("us", tz="UTC"))
    return cast_to_fields(pa.table({"ts": ts, "host": ["b", "b", "a"]}), fields)


def test_clustered_file_is_sorted_and_has_statistics(tmp_path: Path, rows: pa.Table) -> None:
    write_rows(SCHEMA, rows, tmp_path / "file", "compact")
    file = pq.ParquetFile(tmp_path / "file")
    stored = file.read()
    assert stored.column_names == ["ts", "host", "_extra", "_late", "_unit", "_append"]
    assert stored["host"].to_pylist() == ["a", "b", "b"]
    assert stored["ts"].cast("int64").to_pylist() == [2, 1, 3]
    statistics = file.metadata.row_group(0).column(stored.column_names.index("host")).statistics
    assert (statistics.min, statistics.max) == ("a", "b")


def test_unclustered_file_keeps_the_order_and_lacks_computable_columns(
    tmp_path: Path, rows: pa.Table
) -> None:
    write_rows(SCHEMA, rows, tmp_path / "file", "arrived")
    file = pq.ParquetFile(tmp_path / "file")
    stored = file.read()
    assert stored["ts"].cast("int64").to_pylist() == [3, 1, 2]
    assert not {"_id", "_hash", "_append"} & set(stored.column_names)
    assert not file.metadata.row_group(0).column(0).is_stats_set


def test_rows_are_split_by_chunk() -> None:
    rows = pa.table({"chunk": [2, 1, 2], "n": [1, 2, 3]})
    parts = {chunk: part["n"].to_pylist() for chunk, part in split_by_chunk(rows)}
    assert parts == {2: [1, 3], 1: [2]}


def test_missing_columns_are_null() -> None:
    fields = [pa.field("n", pa.int64()), pa.field("host", pa.string())]
    rows = cast_to_fields(pa.table({"n": pa.array([1], pa.int32())}), fields)
    assert rows.schema == pa.schema(fields)
    assert rows.to_pylist() == [{"n": 1, "host": None}]
