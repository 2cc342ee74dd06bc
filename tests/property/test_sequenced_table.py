"""Rows by number are archived exactly once, wherever the process that adds, merges and sweeps them dies; and who has
taken a list of files reads what it was when it was taken."""

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
from hypothesis import given, settings
from hypothesis import strategies as st

from archiver.delta import log
from archiver.delta import sequenced_table as numbered
from archiver.delta.log import CommitConflict, DataFile
from archiver.delta.sequenced_table import (
    COMMIT_ROWS,
    EVENTS,
    SequencedTable,
    select_for_compaction,
    should_commit,
)
from archiver.delta.vacuum import Vacuum

RETENTION = 10.0
CHUNKS = 3


class Killed(BaseException):
    """As by kill -9: what would follow does not."""


@contextmanager
def dying(at: int | None) -> Iterator[None]:
    """The process dies at that of its effects on the disk, which is left half done where it can be; None: it lives."""
    done = 0

    def mortal(
        effect: Callable[..., Any], half: Callable[..., None] | None = None
    ) -> Callable[..., Any]:
        def act(*values: Any, **named: Any) -> Any:
            nonlocal done
            done += 1
            if at is not None and done > at:
                if half is not None and done == at + 1:
                    half(*values)
                raise Killed
            return effect(*values, **named)

        return act

    whole = Path.write_bytes
    with (
        patch.object(os, "link", mortal(os.link)),
        patch.object(os, "fsync", mortal(os.fsync)),
        patch.object(Path, "unlink", mortal(Path.unlink)),
        patch.object(
            Path,
            "write_bytes",
            mortal(whole, lambda path, text: whole(path, text[: len(text) // 2])),
        ),
        patch.object(
            pq, "write_table", mortal(pq.write_table, lambda rows, path: whole(path, b"PAR1"))
        ),
        patch.object(DeltaTable, "create_checkpoint", mortal(DeltaTable.create_checkpoint)),
        patch.object(DeltaTable, "cleanup_metadata", mortal(DeltaTable.cleanup_metadata)),
        patch.object(log, "_CHECKPOINT_INTERVAL", 3),
        patch.object(numbered, "_COMPACTION_FACTOR", 2),
    ):
        yield


def rows(after: int, last: int) -> pa.Table:
    """Events numbered so, by chunk in turns."""
    numbers = range(after + 1, last + 1)
    texts = {
        name: [f"{name} {n % 2}" for n in numbers]
        for name in ("rule", "version", "key", "attributes")
    }
    ts = pa.array([n * 1000 for n in numbers], pa.timestamp("us", tz="UTC"))
    parts = pa.array([n // 5 % CHUNKS for n in numbers], pa.int32())
    return pa.table({"ts": ts, "eid": [str(n) for n in numbers], **texts, "chunk": parts})


def seen(table: SequencedTable, files: list[DataFile]) -> list[int]:
    """The numbers of the rows of some files."""
    return sorted(int(eid) for file in files for eid in table.read_file(file)["eid"].to_pylist())


STEP = st.tuples(
    st.sampled_from(["append", "append", "append", "merge", "sweep"]), st.integers(1, 12)
)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(STEP, st.none() | st.integers(0, 14)), min_size=4, max_size=30))
def test_each_row_is_there_once_wherever_the_process_dies(
    steps: list[tuple[tuple[str, int], int | None]],
) -> None:
    """Every step may be the last of a process; the next one goes on."""
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        table, sweeper, reader = (
            SequencedTable(root, EVENTS),
            Vacuum(RETENTION),
            SequencedTable(root, EVENTS),
        )
        pinned: tuple[int, list[DataFile]] = 0, []
        for turn, ((what, count), at) in enumerate(steps):
            before = table.last_number()
            try:
                with dying(at):
                    if what == "append":
                        table.append(rows(before, before + count), before, before + count)
                    elif what == "merge":
                        table.compact()
                    else:
                        sweeper.run([table], turn * RETENTION / 3)
            except Killed:
                table, sweeper = SequencedTable(root, EVENTS), Vacuum(RETENTION)
            assert seen(reader, pinned[1]) == list(range(1, pinned[0] + 1)), (
                "the reader saw another table"
            )
            if turn % 2:
                pinned = reader.last_number(), reader.data_files()
            assert table.last_number() in (before, before + count)
            assert seen(table, table.data_files()) == list(range(1, table.last_number() + 1))
        fresh, end = SequencedTable(root, EVENTS), len(steps) * RETENTION
        assert sorted(map(int, fresh.read()["eid"].to_pylist())) == list(
            range(1, table.last_number() + 1)
        )
        for now in (end, end + RETENTION):
            sweeper.run([fresh], now)
        left = {
            str(path.relative_to(fresh.data_folder)) for path in fresh.data_folder.glob("chunk=*/*")
        }
        assert left == {file.path for file in fresh.data_files()}, "what nobody needs is gone"
        assert not list((fresh.data_folder / "_delta_log").glob(".*.tmp"))


def test_who_was_replaced_adds_nothing_twice(tmp_path: Path) -> None:
    """Two go on from the same number: one of them is refused, and leaves no row."""
    table, late = SequencedTable(tmp_path, EVENTS), SequencedTable(tmp_path, EVENTS)
    table.append(rows(0, 4), 0, 4)
    with pytest.raises(CommitConflict):
        late.append(rows(0, 6), 0, 6)
    late.append(rows(4, 6), 4, 6)
    assert table.last_number() == 6
    assert seen(table, table.data_files()) == [1, 2, 3, 4, 5, 6]


def test_the_number_outlives_checkpoints_and_the_librarys_own_commits(tmp_path: Path) -> None:
    """Tables that the library has appended to are read and gone on with; other Delta readers see what we see."""
    table = SequencedTable(tmp_path, EVENTS)
    table.append(rows(0, 10), 0, 10)
    write_deltalake(table.data_folder, rows(10, 20), mode="append")
    with patch.object(log, "_CHECKPOINT_INTERVAL", 1):
        table.last_number()
        table.checkpoint()
    for commit in (table.data_folder / "_delta_log").glob("*.json"):
        if commit.stem != f"{2:020d}":
            commit.unlink()  # as the library does after a day
    found = SequencedTable(tmp_path, EVENTS)
    assert found.last_number() == 10
    assert seen(found, found.data_files()) == list(range(1, 21))
    found.append(rows(20, 25), 10, 25)
    other = DeltaTable(table.data_folder)
    assert other.transaction_version(EVENTS[0]) == 25
    assert sorted(map(int, other.to_pyarrow_table()["eid"].to_pylist())) == list(range(1, 26))


def test_a_rules_version_is_read_alone(tmp_path: Path) -> None:
    table = SequencedTable(tmp_path, EVENTS)
    table.append(rows(0, 40), 0, 40)
    found = table.read("rule 1", "version 1")
    assert sorted(map(int, found["eid"].to_pylist())) == list(range(1, 41, 2))
    assert set(found["chunk"].to_pylist()) == set(range(CHUNKS))
    assert len(table.read("rule 1", "version 0")) == 0


@given(st.lists(st.integers(1, COMMIT_ROWS), min_size=1, max_size=400))
def test_few_files_are_left_and_no_row_is_written_often(sizes: list[int]) -> None:
    """However rows come: a chunk has few files that are not large, and a row is rewritten four times at most."""
    files: list[tuple[int, DataFile]] = []
    for number, size in enumerate(sizes):
        files.append((0, DataFile(f"chunk=0/{number}", 0, size, 0, 0, 0)))
        while chosen := select_for_compaction([file for _, file in files]):
            merged = [one for one in files if one[1] in chosen]
            times = max(times for times, _ in merged) + 1
            assert times <= 4
            rows = sum(file.rows for _, file in merged)
            files = [one for one in files if one not in merged] + [
                (times, DataFile(merged[0][1].path, 0, rows, 0, 0, 0))
            ]
        small = [file for _, file in files if file.rows < COMMIT_ROWS // 2]
        assert len(small) <= 4 * 7


def test_rows_wait_until_they_make_a_file() -> None:
    """Many go at once; few when their chunk is closed, and then not all the time."""
    assert should_commit(COMMIT_ROWS, False, 0.0)
    assert not should_commit(COMMIT_ROWS - 1, False, 1e9)
    assert should_commit(1, True, 60.0)
    assert not should_commit(1, True, 59.0)
