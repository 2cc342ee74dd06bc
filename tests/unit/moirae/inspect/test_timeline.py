"""Values of streams around an event."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from archiver.delta import StreamSchema, StreamTable
from archiver.time_range import TimeRange
from archiver.times import to_micros
from moirae.inspect.timeline import Timeline, load_timeline, summarize_values

TS = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
COLUMNS = {"ts": "timestamp", "host": "string", "cpu": "double", "cores": "int", "note": "string"}


def schema(name: str = "node", columns: dict[str, str] = COLUMNS) -> StreamSchema:
    return StreamSchema(name, columns, "ts", None, (), MINUTE, MINUTE)


def append(table: StreamTable, rows: list[dict[str, Any]]) -> None:
    arrow_schema = table.schema.arrow_schema()
    added = {"_late": False, "_unit": 1, "_line": 1, "_append": 1, "chunk": 0}
    filled = [{**dict.fromkeys(arrow_schema.names), **added, **row} for row in rows]
    for number, row in enumerate(filled):
        row["_id"] = number.to_bytes(16, "big")
        row["_hash"] = number
    table.append(pa.Table.from_pylist(filled, arrow_schema), 1)


def load(folder: Path, schemas: list[StreamSchema], ts: datetime = TS) -> Timeline:
    return load_timeline(
        folder, schemas, ts, {"host": "a"}, before=60 * MINUTE, after=30 * MINUTE, intervals=90
    )


def test_interval_has_lowest_mean_and_highest_value() -> None:
    times = np.array([0, 1, 10, 19], dtype=np.int64)
    values = np.array([1.0, 3.0, 5.0, 9.0])
    series = summarize_values("s", "c", times, values, TimeRange(0, 30), 3)
    assert series.lowest == [1.0, 5.0]
    assert series.mean == [2.0, 7.0]
    assert series.highest == [3.0, 9.0]
    assert [to_micros(time) for time in series.times] == [5, 15]
    assert series.rows == 4


def test_empty_range_has_no_intervals() -> None:
    empty = np.array([], dtype=np.int64)
    series = summarize_values("s", "c", empty, np.array([]), TimeRange(0, 30), 3)
    assert series.times == series.mean == []


def test_numeric_columns_of_the_key_in_range_are_read(tmp_path: Path) -> None:
    table = StreamTable(tmp_path, schema())
    append(
        table,
        [
            {"ts": TS - 60 * MINUTE, "host": "a", "cpu": 1.0, "cores": 4},
            {"ts": TS, "host": "a", "cpu": 2.0, "cores": None},
            {"ts": TS, "host": "b", "cpu": 50.0, "cores": 8},
            {"ts": TS + 30 * MINUTE, "host": "a", "cpu": 99.0, "cores": 4},
            {"ts": TS + MINUTE, "host": "a", "cpu": float("nan"), "cores": 4},
        ],
    )
    timeline = load(tmp_path, [schema()])
    by_column = {series.column: series for series in timeline.series}
    assert by_column.keys() == {"cpu", "cores"}
    assert by_column["cpu"].mean == [1.0, 2.0]
    assert by_column["cores"].rows == 2
    assert timeline.start == TS - 60 * MINUTE
    assert timeline.missing == []


def test_stream_without_the_key_is_left_out(tmp_path: Path) -> None:
    timeline = load(tmp_path, [schema("other", {"ts": "timestamp", "cpu": "double"})])
    assert timeline.series == timeline.missing == []


@pytest.mark.parametrize(
    ("ts", "reason"),
    [
        (TS - timedelta(days=90), "no rows: those of this stream start at 2026-01-01 12:00Z"),
        (TS + timedelta(days=1), "no rows in this range"),
    ],
)
def test_missing_rows_are_explained(tmp_path: Path, ts: datetime, reason: str) -> None:
    append(StreamTable(tmp_path, schema()), [{"ts": TS, "host": "a", "cpu": 1.0}])
    timeline = load(tmp_path, [schema(), schema("unread")], ts)
    assert timeline.series == []
    assert [(entry.stream, entry.reason) for entry in timeline.missing] == [
        ("node", reason),
        ("unread", "nothing is archived yet"),
    ]
