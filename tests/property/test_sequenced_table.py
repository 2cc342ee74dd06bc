"""Rows are archived exactly once by number, wherever a process dies; snapshots do not change."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from archiver.delta import log, sequenced_table
from archiver.delta.log import DataFile
from archiver.delta.sequenced_table import (
    COMMIT_ROWS,
    EVENTS,
    SequencedTable,
    select_for_compaction,
    should_commit,
)
from archiver.delta.vacuum import Vacuum
from archiver.errors import CommitConflict
from tests.examples import examples

RETENTION = 10.0  # seconds
CHUNKS = 3


class Killed(BaseException):
    """The simulated SIGKILL: nothing after it has an effect."""


@contextmanager
def killed_after(effects: int | None) -> Iterator[None]:
    """Kill the process after so many effects on the disk; None: never.

    The next effect is left half done where that is possible.
    """
    count = 0

    def killable(
        effect: Callable[..., Any], half_effect: Callable[..., None] | None = None
    ) -> Callable[..., Any]:
        def run(*values: Any, **options: Any) -> Any:
            nonlocal count
            count += 1
            if effects is not None and count > effects:
                if half_effect is not None and count == effects + 1:
                    half_effect(*values)
                raise Killed
            return effect(*values, **options)

        return run

    write_bytes = Path.write_bytes

    def write_half(path: Path, content: bytes) -> None:
        write_bytes(path, content[: len(content) // 2])

    def write_truncated_parquet(rows: pa.Table, path: Path) -> None:
        write_bytes(path, b"PAR1")

    with (
        patch.object(os, "link", killable(os.link)),
        patch.object(os, "fsync", killable(os.fsync)),
        patch.object(Path, "unlink", killable(Path.unlink)),
        patch.object(Path, "write_bytes", killable(write_bytes, write_half)),
        patch.object(pq, "write_table", killable(pq.write_table, write_truncated_parquet)),
        patch.object(DeltaTable, "create_checkpoint", killable(DeltaTable.create_checkpoint)),
        patch.object(DeltaTable, "cleanup_metadata", killable(DeltaTable.cleanup_metadata)),
        patch.object(log, "_CHECKPOINT_INTERVAL", 3),
        patch.object(sequenced_table, "_COMPACTION_FACTOR", 2),
    ):
        yield


def event_rows(after: int, last: int) -> pa.Table:
    """Events with the numbers from `after` + 1 to `last`, distributed over the chunks."""
    numbers = range(after + 1, last + 1)
    columns: dict[str, Any] = {
        "ts": pa.array([n * 1000 for n in numbers], pa.timestamp("us", tz="UTC")),
        "eid": [str(n) for n in numbers],
    }
    for name in ("rule", "version", "key", "attributes"):
        columns[name] = [f"{name} {n % 2}" for n in numbers]
    columns["chunk"] = pa.array([n // 5 % CHUNKS for n in numbers], pa.int32())
    return pa.table(columns)


def numbers_in(table: SequencedTable, files: list[DataFile]) -> list[int]:
    """The numbers of the rows of some files."""
    numbers: list[int] = []
    for file in files:
        numbers.extend(map(int, table.read_file(file)["eid"].to_pylist()))
    return sorted(numbers)


STEP = st.tuples(
    st.sampled_from(["append", "append", "append", "compact", "vacuum"]), st.integers(1, 12)
)


@examples(15)
@given(st.lists(st.tuples(STEP, st.none() | st.integers(0, 14)), min_size=4, max_size=30))
def test_each_row_is_archived_once_wherever_the_process_dies(
    steps: list[tuple[tuple[str, int], int | None]],
) -> None:
    """Each step may kill the process; the next one continues with the table."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        table, vacuum = SequencedTable(root, EVENTS), Vacuum(RETENTION)
        reader = SequencedTable(root, EVENTS)
        snapshot: tuple[int, list[DataFile]] = 0, []
        for step, ((action, count), effects) in enumerate(steps):
            last = table.last_number()
            try:
                with killed_after(effects):
                    if action == "append":
                        table.append(event_rows(last, last + count), last, last + count)
                    elif action == "compact":
                        table.compact()
                    else:
                        vacuum.run([table], step * RETENTION / 3)
            except Killed:
                table, vacuum = SequencedTable(root, EVENTS), Vacuum(RETENTION)
            assert numbers_in(reader, snapshot[1]) == list(range(1, snapshot[0] + 1)), (
                "the reader saw another table"
            )
            if step % 2:
                snapshot = reader.last_number(), reader.data_files()
            assert table.last_number() in (last, last + count)
            assert numbers_in(table, table.data_files()) == list(range(1, table.last_number() + 1))
        reopened, end = SequencedTable(root, EVENTS), len(steps) * RETENTION
        archived = sorted(map(int, reopened.read()["eid"].to_pylist()))
        assert archived == list(range(1, table.last_number() + 1))
        for now in (end, end + RETENTION):
            vacuum.run([reopened], now)
        data_folder = reopened.data_folder
        files = {str(path.relative_to(data_folder)) for path in data_folder.glob("chunk=*/*")}
        assert files == {file.path for file in reopened.data_files()}, "unreferenced files stay"
        assert not list((data_folder / "_delta_log").glob(".*.tmp"))


def test_second_append_after_the_same_number_is_a_conflict(tmp_path: Path) -> None:
    first, second = SequencedTable(tmp_path, EVENTS), SequencedTable(tmp_path, EVENTS)
    first.append(event_rows(0, 4), 0, 4)
    with pytest.raises(CommitConflict):
        second.append(event_rows(0, 6), 0, 6)
    second.append(event_rows(4, 6), 4, 6)
    assert first.last_number() == 6
    assert numbers_in(first, first.data_files()) == [1, 2, 3, 4, 5, 6]


def test_number_survives_checkpoints_and_commits_of_the_library(tmp_path: Path) -> None:
    """Appends of the deltalake library are read and continued, and it reads ours."""
    table = SequencedTable(tmp_path, EVENTS)
    table.append(event_rows(0, 10), 0, 10)
    write_deltalake(table.data_folder, event_rows(10, 20), mode="append")
    with patch.object(log, "_CHECKPOINT_INTERVAL", 1):
        table.last_number()
        table.checkpoint()
    for commit in (table.data_folder / "_delta_log").glob("*.json"):
        if commit.stem != f"{2:020d}":
            commit.unlink()  # as the library does after a day
    reopened = SequencedTable(tmp_path, EVENTS)
    assert reopened.last_number() == 10
    assert numbers_in(reopened, reopened.data_files()) == list(range(1, 21))
    reopened.append(event_rows(20, 25), 10, 25)
    delta_table = DeltaTable(table.data_folder)
    assert delta_table.transaction_version(EVENTS.name) == 25
    eids = delta_table.to_pyarrow_table()["eid"].to_pylist()
    assert sorted(map(int, eids)) == list(range(1, 26))


def test_only_rows_of_the_requested_rule_and_version_are_read(tmp_path: Path) -> None:
    table = SequencedTable(tmp_path, EVENTS)
    table.append(event_rows(0, 40), 0, 40)
    rows = table.read("rule 1", "version 1")
    assert sorted(map(int, rows["eid"].to_pylist())) == list(range(1, 41, 2))
    assert set(rows["chunk"].to_pylist()) == set(range(CHUNKS))
    assert len(table.read("rule 1", "version 0")) == 0


@given(st.lists(st.integers(1, COMMIT_ROWS), min_size=1, max_size=400))
def test_compaction_leaves_few_files_and_rewrites_rows_seldom(sizes: list[int]) -> None:
    """For any sizes: few small files remain, and no row is rewritten more than four times."""
    files: list[tuple[int, DataFile]] = []  # (times that its rows were rewritten, file)
    for number, size in enumerate(sizes):
        files.append((0, DataFile(f"chunk=0/{number}", 0, size, 0, 0, 0)))
        while selected := select_for_compaction([file for _, file in files]):
            merged = [entry for entry in files if entry[1] in selected]
            times = max(times for times, _ in merged) + 1
            assert times <= 4
            rows = sum(file.rows for _, file in merged)
            files = [entry for entry in files if entry not in merged]
            files.append((times, DataFile(merged[0][1].path, 0, rows, 0, 0, 0)))
        small = [file for _, file in files if file.rows < COMMIT_ROWS // 2]
        assert len(small) <= 4 * 7


def test_few_rows_are_committed_only_if_their_chunk_is_closed() -> None:
    assert should_commit(COMMIT_ROWS, False, 0.0)
    assert not should_commit(COMMIT_ROWS - 1, False, 1e9)
    assert should_commit(1, True, 60.0)
    assert not should_commit(1, True, 59.0)
