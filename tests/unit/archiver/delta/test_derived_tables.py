"""Chunks of derived streams: written whole, by one of those who write at the same time; what they replace goes."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from archiver.delta.derived_tables import open_or_create_table, open_table, replace_chunk
from archiver.delta.log import CommitConflict
from archiver.delta.table import StreamTable
from archiver.delta.vacuum import Vacuum

TIMES = pa.array(
    [datetime(2026, 1, 1, hour, tzinfo=UTC) for hour in (1, 2)], pa.timestamp("us", tz="UTC")
)
ROWS = pa.table({"host": ["a", "b"], "ts": TIMES})


def _table(root: Path) -> StreamTable:
    return open_or_create_table(root, "load", "v", ROWS.schema)


def _hosts(root: Path) -> list[str]:
    return sorted(open_table(root, "load", "v").read(["host"])["host"].to_pylist())


@pytest.mark.parametrize("there", [False, True])
def test_of_two_who_write_a_chunk_at_once_one_is_superseded(tmp_path: Path, there: bool) -> None:
    first, second = _table(tmp_path), _table(tmp_path)
    if there:
        replace_chunk(second, ROWS, 3)
    commit = first._log.commit

    def after_another(*values: Any, **named: Any) -> None:
        replace_chunk(second, ROWS, 3)
        commit(*values, **named)

    with patch.object(first._log, "commit", after_another), pytest.raises(CommitConflict):
        replace_chunk(first, ROWS, 3)
    assert _hosts(tmp_path) == ["a", "b"]
    replace_chunk(first, ROWS, 3)
    replace_chunk(first, ROWS, 4)  # another chunk is no matter
    assert _hosts(tmp_path) == ["a", "a", "b", "b"]


def test_files_that_were_replaced_or_forgotten_go_after_a_while(tmp_path: Path) -> None:
    table, sweeper = _table(tmp_path), Vacuum(10.0)
    for chunk in (3, 3, 4):
        replace_chunk(table, ROWS, chunk)
    table.delete_chunk(4)

    def files() -> list[str]:
        return sorted(path.parent.name for path in table.data_folder.glob("chunk=*/*.parquet"))

    sweeper.run([table], 0.0)
    sweeper.run([table], 9.0)
    assert files() == ["chunk=3", "chunk=3", "chunk=4"]
    sweeper.run([table], 10.0)
    assert files() == ["chunk=3"]
    assert not (table.data_folder / "chunk=4").exists()
    assert _hosts(tmp_path) == ["a", "b"]
