"""Chunks of derived streams: replaced as a whole, by one of several concurrent writers."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from archiver.delta.derived_tables import open_or_create_table, open_table
from archiver.delta.table import StreamTable
from archiver.delta.vacuum import Vacuum
from archiver.errors import CommitConflict, NotArchivable
from tests.derived_chunks import replace_chunk

TIMES = pa.array(
    [datetime(2026, 1, 1, hour, tzinfo=UTC) for hour in (1, 2)], pa.timestamp("us", tz="UTC")
)
ROWS = pa.table({"host": ["a", "b"], "ts": TIMES})


def _open_table(root: Path) -> StreamTable:
    return open_or_create_table(root, "load", "v", ROWS.schema)


def _hosts(root: Path) -> list[str]:
    return sorted(open_table(root, "load", "v").read(["host"])["host"].to_pylist())


@pytest.mark.parametrize("exists", [False, True])
def test_second_of_two_concurrent_replacements_is_a_conflict(tmp_path: Path, exists: bool) -> None:
    first, second = _open_table(tmp_path), _open_table(tmp_path)
    if exists:
        replace_chunk(second, ROWS, 3)
    commit = first._log.commit

    def commit_after_another(*values: Any, **options: Any) -> None:
        replace_chunk(second, ROWS, 3)
        commit(*values, **options)

    with (
        patch.object(first._log, "commit", commit_after_another),
        pytest.raises(CommitConflict),
    ):
        replace_chunk(first, ROWS, 3)
    assert _hosts(tmp_path) == ["a", "b"]
    replace_chunk(first, ROWS, 3)
    replace_chunk(first, ROWS, 4)
    assert _hosts(tmp_path) == ["a", "a", "b", "b"]


def test_files_of_replaced_and_deleted_chunks_are_removed_after_their_retention(
    tmp_path: Path,
) -> None:
    table, vacuum = _open_table(tmp_path), Vacuum(10.0)
    for chunk in (3, 3, 4):
        replace_chunk(table, ROWS, chunk)
    table.delete_chunk(4)

    def chunk_folders() -> list[str]:
        return sorted(path.parent.name for path in table.data_folder.glob("chunk=*/*.parquet"))

    vacuum.run([table], 0.0)
    vacuum.run([table], 9.0)
    assert chunk_folders() == ["chunk=3", "chunk=3", "chunk=4"]
    vacuum.run([table], 10.0)
    assert chunk_folders() == ["chunk=3"]
    assert not (table.data_folder / "chunk=4").exists()
    assert _hosts(tmp_path) == ["a", "b"]


def test_column_of_an_unsupported_type_is_refused(tmp_path: Path) -> None:
    schema = pa.schema([("ts", pa.timestamp("us", tz="UTC")), ("values", pa.list_(pa.int64()))])
    with pytest.raises(NotArchivable, match="load: column values has type list"):
        open_or_create_table(tmp_path, "load", "v", schema)
