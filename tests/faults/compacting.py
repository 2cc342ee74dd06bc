"""Processes that `test_kill_compaction` kills: one rewrites files of closed chunks again and again,
one reads the tables with programs that are not Moirae.
"""

import os
import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

from archiver import chunks
from archiver.delta import TableFiles
from moirae.cli.archive import compact
from moirae.cli.options import OutputFormat
from moirae.errors import Unreachable

Row = tuple[Any, ...]
Rows = Mapping[str, tuple[Sequence[str], Sequence[Row]]]
"""Columns and rows by stream."""

_LONGEST_PAUSE = 0.3  # seconds, before and after a file is written


def compact_slowly(workspace: Path, log: Path) -> None:
    """`moirae archive compact` until killed, with pauses in which kills find it more often."""
    descriptor = os.open(log, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    rng = random.Random()

    def write_slowly(*arguments: Any, **options: Any) -> Any:
        time.sleep(rng.uniform(0, _LONGEST_PAUSE))
        written = TableFiles.write_compact(*arguments, **options)
        time.sleep(rng.uniform(0, _LONGEST_PAUSE))
        return written

    class SlowCompaction(chunks.Compaction):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, rewrite=write_slowly)

    chunks.Compaction = SlowCompaction  # type: ignore[misc]
    while True:
        with suppress(Unreachable):  # the database starts after a kill, or the machine is busy
            compact(workspace, OutputFormat.JSON)
        time.sleep(0.1)


def read_tables(archive: Path, expected: Rows, log: Path) -> None:
    """Read the user's columns by delta-rs and DuckDB until killed. It ends if a row is missing or
    seen twice.
    """
    while True:
        for stream, (columns, rows) in expected.items():
            table = DeltaTable(archive / "streams" / stream)
            read = table.to_pyarrow_table(columns=list(columns))
            _check(stream, rows, _rows(read, columns))
            paths = [path.removeprefix("file://") for path in table.file_uris()]
            names = ", ".join(columns)
            scan = "read_parquet($paths, hive_partitioning = false, union_by_name = true)"
            found = duckdb.execute(f"SELECT {names} FROM {scan}", {"paths": paths}).fetchall()
            _check(stream, [_without_zone(row) for row in rows], list(map(_without_zone, found)))
        with log.open("a") as file:
            file.write("read\n")


def _check(stream: str, expected: Sequence[Row], found: Sequence[Row]) -> None:
    counts = Counter(found)
    missing = [row for row in expected if not counts[row]]
    assert not missing, f"{stream}: {len(missing)} rows are missing, such as {missing[0]}"
    twice = [row for row in expected if counts[row] > 1]
    assert not twice, f"{stream}: {len(twice)} rows are seen twice, such as {twice[0]}"


def read_rows(archive: Path, columns: Mapping[str, Sequence[str]]) -> Rows:
    """The rows of streams now, by delta-rs."""
    rows: dict[str, tuple[Sequence[str], Sequence[Row]]] = {}
    for stream, names in columns.items():
        table = DeltaTable(archive / "streams" / stream).to_pyarrow_table(columns=list(names))
        rows[stream] = names, _rows(table, names)
    return rows


def _rows(table: pa.Table, columns: Sequence[str]) -> list[Row]:
    return list(zip(*(table[name].to_pylist() for name in columns), strict=True))


def _without_zone(row: Row) -> Row:
    """Times of different readers are equal, their zones need not be."""
    return tuple(value.timestamp() if isinstance(value, datetime) else value for value in row)
