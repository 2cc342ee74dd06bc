"""Chunks of derived streams: written whole, by one of those who write at the same time; what they replace goes."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from archiver.derived import made, opened, write
from archiver.log import Superseded
from archiver.sweep import Sweeper
from archiver.table import StreamTable

TIMES = pa.array([datetime(2026, 1, 1, hour, tzinfo=UTC) for hour in (1, 2)], pa.timestamp("us", tz="UTC"))
ROWS = pa.table({"host": ["a", "b"], "ts": TIMES})


def _table(root: Path) -> StreamTable:
    return made(root, "load", "v", ROWS.schema)


def _hosts(root: Path) -> list[str]:
    return sorted(opened(root, "load", "v").read(["host"])["host"].to_pylist())


@pytest.mark.parametrize("there", [False, True])
def test_of_two_who_write_a_chunk_at_once_one_is_superseded(tmp_path: Path, there: bool) -> None:
    first, second = _table(tmp_path), _table(tmp_path)
    if there:
        write(second, ROWS, 3)
    commit = first._log.commit

    def after_another(*values: Any, **named: Any) -> None:
        write(second, ROWS, 3)
        commit(*values, **named)

    with patch.object(first._log, "commit", after_another), pytest.raises(Superseded):
        write(first, ROWS, 3)
    assert _hosts(tmp_path) == ["a", "b"]
    write(first, ROWS, 3)
    write(first, ROWS, 4)  # another chunk is no matter
    assert _hosts(tmp_path) == ["a", "a", "b", "b"]


def test_files_that_were_replaced_or_forgotten_go_after_a_while(tmp_path: Path) -> None:
    table, sweeper = _table(tmp_path), Sweeper(10.0)
    for chunk in (3, 3, 4):
        write(table, ROWS, chunk)
    table.forget(4)

    def files() -> list[str]:
        return sorted(path.parent.name for path in table.path.glob("chunk=*/*.parquet"))

    sweeper.sweep([table], 0.0)
    sweeper.sweep([table], 9.0)
    assert files() == ["chunk=3", "chunk=3", "chunk=4"]
    sweeper.sweep([table], 10.0)
    assert files() == ["chunk=3"]
    assert not (table.path / "chunk=4").exists()
    assert _hosts(tmp_path) == ["a", "b"]
