"""The archive as it once was: the same rows, whatever came since and whatever became of their files."""

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
from hypothesis import given, settings
from hypothesis import strategies as st

from archiver.delta.log import CommitConflict
from archiver.delta.table import StreamTable
from archiver.delta.vacuum import Vacuum
from archiver.read.reader import Reader, SnapshotReader
from archiver.read.time_travel import HistoryUnavailable, ReaderAt
from tests.property.test_present import SCHEMA, made, seen

STEPS = st.lists(
    st.sampled_from(["append", "append", "late", "close", "cluster", "sweep", "open", "look"]),
    max_size=40,
)


@settings(max_examples=25)
@given(STEPS)
def test_what_was_seen_once_is_seen_again(steps: list[str]) -> None:
    """Each look is kept with its number of appends, and taken again at the end."""
    root = Path(tempfile.mkdtemp())
    try:
        table, sweeper, reader = StreamTable(root, SCHEMA), Vacuum(0.0), Reader(root, [SCHEMA])
        looks: list[tuple[int, Counter[int]]] = []
        chunk = rows = 0
        for step in steps:
            if step in ("append", "late"):
                table.append(made(rows, 7, chunk if step == "append" else 0, rows), 0)
                rows += 7
            elif step == "close":
                chunk += 1
            elif step == "cluster":
                StreamTable(root, SCHEMA).cluster(0)
            elif step == "sweep":
                sweeper.run([table], 0.0)
            elif step == "open":
                DeltaTable(table.data_folder).create_checkpoint()
                table = StreamTable(root, SCHEMA)
            else:
                looks.append(
                    (
                        reader.acquire({"s": (None, None)})["s"].append_count,
                        seen(reader, None, None),
                    )
                )
        then = ReaderAt(root, [SCHEMA])
        for appends, found in looks:
            then.append_counts = {"s": appends}
            assert seen(then, None, None) == found
        assert reader.acquire({"s": (None, None)})["s"].append_count == table.append_count
    finally:
        shutil.rmtree(root)


def test_a_query_sees_one_version_however_often_it_asks(tmp_path: Path) -> None:
    """Another thread sees what comes in meanwhile."""
    table, reader = StreamTable(tmp_path, SCHEMA), Reader(tmp_path, [SCHEMA])
    query = SnapshotReader(reader)
    table.append(made(0, 7, 0, 0), 0)
    before, files = query.acquire({"s": (None, None)})["s"], query.local_paths("s", None, None)
    table.append(made(7, 7, 0, 7), 0)
    table.cluster(0)
    reader.refresh()
    assert (query.snapshot("s", None, None), query.local_paths("s", None, None)) == (before, files)
    assert query.local_paths("s", None, -1) == []
    query.release()
    assert (
        query.snapshot("s", None, None).append_count == before.append_count + 1
        and query.local_paths("s", None, None) != files
    )


def test_rows_that_another_program_has_rewritten_are_not_taken_for_those_of_then(
    tmp_path: Path,
) -> None:
    table = StreamTable(tmp_path, SCHEMA)
    for first in (0, 7):
        table.append(made(first, 7, 0, first), 0)
    DeltaTable(table.data_folder).optimize.compact()
    then = ReaderAt(tmp_path, [SCHEMA])
    then.append_counts = {"s": 1}
    with pytest.raises(HistoryUnavailable, match="rewritten by another program"):
        then.snapshot("s", None, None)


def test_appends_of_two_who_take_the_same_number_are_not_mixed_up(tmp_path: Path) -> None:
    """One of two who append at once is refused: its rows would count as those of the other."""
    first, second = StreamTable(tmp_path, SCHEMA), StreamTable(tmp_path, SCHEMA)
    commit = second._log.commit

    def after_another(*values: Any, **named: Any) -> None:
        first.append(made(0, 7, 0, 0), 0)
        commit(*values, **named)

    with patch.object(second._log, "commit", after_another), pytest.raises(CommitConflict):
        second.append(made(7, 7, 0, 7), 0)
    assert pa.concat_tables([pq.read_table(path) for path in first.local_paths()]).num_rows == 7
