"""Reading an earlier state of the archive, after further appends and rewrites of its files."""

import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from archiver.delta.table import StreamTable
from archiver.delta.vacuum import Vacuum
from archiver.errors import CommitConflict, HistoryUnavailable
from archiver.read.reader import Reader, SnapshotReader
from archiver.read.time_travel import ReaderAt
from archiver.time_range import ALL_TIME, TimeRange
from tests.examples import examples
from tests.property.test_present_rows import SCHEMA, count_numbers, make_rows

STEPS = st.lists(
    st.sampled_from(["append", "append", "late", "close", "cluster", "vacuum", "open", "read"]),
    max_size=40,
)


@examples(25)
@given(STEPS)
def test_reader_at_returns_the_rows_of_an_earlier_snapshot(steps: list[str]) -> None:
    """The rows of each read, with the number of appends, are compared at the end."""
    root = Path(tempfile.mkdtemp())
    try:
        table, vacuum, reader = StreamTable(root, SCHEMA), Vacuum(0.0), Reader(root, [SCHEMA])
        reads: list[tuple[int, Counter[int]]] = []
        chunk = rows = 0
        for step in steps:
            if step in ("append", "late"):
                table.append(make_rows(rows, 7, chunk if step == "append" else 0, rows), 0)
                rows += 7
            elif step == "close":
                chunk += 1
            elif step == "cluster":
                StreamTable(root, SCHEMA).cluster(0)
            elif step == "vacuum":
                vacuum.run([table], 0.0)
            elif step == "open":
                DeltaTable(table.data_folder).create_checkpoint()
                table = StreamTable(root, SCHEMA)
            else:
                append_count = reader.acquire({"s": ALL_TIME})["s"].append_count
                reads.append((append_count, count_numbers(reader, ALL_TIME)))
        reader_at = ReaderAt(root, [SCHEMA])
        for append_count, numbers in reads:
            reader_at.append_counts = {"s": append_count}
            assert count_numbers(reader_at, ALL_TIME) == numbers
        assert reader.acquire({"s": ALL_TIME})["s"].append_count == table.append_count
    finally:
        shutil.rmtree(root)


def test_snapshot_reader_reads_one_version_until_release(tmp_path: Path) -> None:
    """Later appends are visible to other threads only."""
    table, reader = StreamTable(tmp_path, SCHEMA), Reader(tmp_path, [SCHEMA])
    query = SnapshotReader(reader)
    table.append(make_rows(0, 7, 0, 0), 0)
    before, files = query.acquire({"s": ALL_TIME})["s"], query.local_paths("s")
    table.append(make_rows(7, 7, 0, 7), 0)
    table.cluster(0)
    reader.refresh()
    assert (query.snapshot("s"), query.local_paths("s")) == (before, files)
    assert query.local_paths("s", TimeRange(None, -1)) == []
    query.release()
    assert (
        query.snapshot("s").append_count == before.append_count + 1
        and query.local_paths("s") != files
    )


def test_rows_rewritten_by_another_program_raise_history_unavailable(
    tmp_path: Path,
) -> None:
    table = StreamTable(tmp_path, SCHEMA)
    for first in (0, 7):
        table.append(make_rows(first, 7, 0, first), 0)
    DeltaTable(table.data_folder).optimize.compact()
    reader_at = ReaderAt(tmp_path, [SCHEMA])
    reader_at.append_counts = {"s": 1}
    with pytest.raises(HistoryUnavailable, match="rewritten by another program"):
        reader_at.snapshot("s")


def test_concurrent_append_with_the_same_number_is_rejected(tmp_path: Path) -> None:
    """Else its rows would be attributed to the append of the other writer."""
    first, second = StreamTable(tmp_path, SCHEMA), StreamTable(tmp_path, SCHEMA)
    commit = second._log.commit

    def commit_after_first(*args: Any, **kwargs: Any) -> None:
        first.append(make_rows(0, 7, 0, 0), 0)
        commit(*args, **kwargs)

    with patch.object(second._log, "commit", commit_after_first), pytest.raises(CommitConflict):
        second.append(make_rows(7, 7, 0, 7), 0)
    assert pa.concat_tables([pq.read_table(path) for path in first.local_paths()]).num_rows == 7
