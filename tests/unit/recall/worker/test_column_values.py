"""The values of a column in the files of an archive."""

import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from archiver.delta.schema import StreamSchema
from archiver.delta.table import StreamTable
from archiver.read.reader import Reader
from archiver.times import to_micros
from recall.engines.template import Template
from recall.requests import Piece, SqlQuestion
from recall.scheduling.chunk_order import NO_VALUES, ValueRange
from recall.worker import column_values
from recall.worker.column_values import ColumnValues

START = datetime(2026, 1, 1, tzinfo=UTC)
COLUMNS = {"ts": "timestamp", "host": "string", "v": "double", "n": "bigint"}
SCHEMA = StreamSchema("s", COLUMNS, "ts", None, ("host",), timedelta(0), timedelta(0))


def _archive(root: Path, chunks: list[list[tuple[float | None, int | None]]]) -> ColumnValues:
    table = StreamTable(root, SCHEMA)
    arrow = SCHEMA.arrow_schema()
    for chunk, rows in enumerate(chunks):
        columns: dict[str, Any] = {f.name: pa.nulls(len(rows), f.type) for f in arrow}
        times = [START + timedelta(seconds=chunk)] * len(rows)
        columns["ts"] = pa.array(times, arrow.field("ts").type)
        columns["v"] = pa.array([v for v, _ in rows], pa.float64())
        columns["n"] = pa.array([n for _, n in rows], pa.int64())
        columns["_late"] = pa.array([False] * len(rows))
        columns["chunk"] = pa.array([chunk] * len(rows), pa.int32())
        names = [name for name in arrow.names if name != "_append"]
        table.append(pa.table(columns).select(names), chunk)
    return ColumnValues(Reader(root, [SCHEMA]))


def _template(column: str) -> Template:
    question = SqlQuestion(
        range=None,
        every=1.0,
        order="extreme",
        extreme=column,
        sql="SELECT max(v) AS top FROM s",
        streams={"s": "ts"},
        relations=(),
        derived={},
        attributes={},
        own={},
        columns={},
    )
    return Template(question)


def _pieces(count: int) -> list[Piece]:
    start = to_micros(START)
    return [Piece(n, start + n * 1_000_000, start + (n + 1) * 1_000_000) for n in range(count)]


def test_values_are_those_of_the_rows_of_a_piece(tmp_path: Path) -> None:
    rows = [[(1.5, 3), (None, 9)], [(math.nan, None)], [(-2.0, None), (7.0, None)]]
    values = _archive(tmp_path, [*rows, [(math.inf, 1)]])
    assert values.find(_template("v"), _pieces(5)) == [
        ValueRange(1.5, 1.5),
        NO_VALUES,  # not a number
        ValueRange(-2.0, 7.0),
        None,  # infinite
        NO_VALUES,  # no file
    ]
    assert values.find(_template("n"), _pieces(3)) == [ValueRange(3, 9), NO_VALUES, NO_VALUES]
    ts = to_micros(START)
    assert values.find(_template("ts"), _pieces(1)) == [ValueRange(ts, ts)]


def test_files_that_are_not_read_in_time_are_read_while_the_process_is_idle(
    tmp_path: Path, monkeypatch: Any
) -> None:
    values = _archive(tmp_path, [[(1.0, 1)], [(2.0, 1)]])
    monkeypatch.setattr(column_values, "_READ_TIME", -1.0)
    assert not values.index_next_file()
    assert values.find(_template("v"), _pieces(2)) == [None, None]
    assert values.index_next_file() and values.index_next_file()
    assert not values.index_next_file()
    assert values.find(_template("v"), _pieces(2)) == [ValueRange(1, 1), ValueRange(2, 2)]
