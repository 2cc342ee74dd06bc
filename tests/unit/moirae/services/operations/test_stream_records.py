"""The newest records of a stream; tests/integration/test_api.py asks for them."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from moirae.services.operations.stream_records import _read_newest

START = datetime(2026, 1, 1, tzinfo=UTC)


def make_rows(*seconds: int) -> pa.Table:
    times = pa.array([START + timedelta(seconds=n) for n in seconds], pa.timestamp("us", tz="UTC"))
    return pa.table({"ts": times, "n": pa.array(seconds, pa.int64())})


def test_newest_rows_are_read_from_as_few_files_as_possible() -> None:
    contents = {"a": make_rows(1, 9), "b": make_rows(8, 7), "c": make_rows(2, 3)}
    read: list[str] = []

    def read_file(path: str, columns: list[str]) -> pa.Table:
        read.append(path)
        return contents[path].select(columns)

    base = int(START.timestamp() * 1_000_000)
    files = [
        SimpleNamespace(path=path, newest=base + max(rows["n"].to_pylist()) * 1_000_000)
        for path, rows in contents.items()
    ]
    table: Any = SimpleNamespace(
        schema=SimpleNamespace(time="ts"),
        files=SimpleNamespace(arrow_schema=make_rows().schema),
        data_files=lambda _: files,
        read_file=read_file,
    )
    assert _read_newest(table, ["ts", "n"], 3)["n"].to_pylist() == [9, 8, 7]
    assert read == ["a", "b"]
