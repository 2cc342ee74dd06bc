"""The two tables of a revision stream: what their commits hold, merges, deletion and change feed."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from archiver.delta import ArchivedRevision, RevisionTables, check_files, list_tables, unpartitioned
from archiver.errors import CommitConflict

START = datetime(2026, 1, 1, tzinfo=UTC)
NAME = "g_r.norm-1"


def revision(seq: int, op: str, key: str, value: int, eid: str = "e") -> ArchivedRevision:
    ts = START + timedelta(minutes=int(eid[1:] or 0))
    row = None if op in ("delete", "boundary") else {"v": value}
    return ArchivedRevision(seq, eid, ts, op, key, row, None, "1")


def tables(root: Path) -> RevisionTables:
    return RevisionTables(root, NAME, "g/r")


def read_rows(root: Path) -> dict[tuple[str, str], str]:
    rows = DeltaTable(root / "recalls" / "rows" / NAME).to_pyarrow_table().to_pylist()
    by_key = {(row["eid"], row["row_key"]): row["row"] for row in rows}
    assert len(by_key) == len(rows)
    return by_key


def read_changes(root: Path, version: int) -> list[tuple[str, str, str]]:
    feed = DeltaTable(root / "recalls" / "rows" / NAME).load_cdf(version, version)
    rows = pa.table(feed.read_all()).to_pylist()
    return sorted((row["_change_type"], row["row_key"], row["row"]) for row in rows)


def damaged(root: Path) -> list[str]:
    texts = []
    for table in list_tables(root):
        files = check_files(table, {})
        assert files is not None
        assert files.compared == files.count, "each file has a digest in the log"
        texts += [f"{table.kind}: {file.kind}" for file in files.damaged]
    return texts


def test_each_commit_holds_the_digest_of_its_files(tmp_path: Path) -> None:
    tables(tmp_path).append([revision(1, "insert", "a", 1), revision(2, "insert", "b", 2)])
    tables(tmp_path).append([revision(3, "update", "a", 3)])
    assert damaged(tmp_path) == []
    for folder in (tmp_path / "recalls").glob("*/*"):
        (path, *_) = sorted(folder.glob("*.parquet"), key=lambda path: path.stat().st_mtime)[-1:]
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    assert damaged(tmp_path) == ["revisions: content", "rows: content"]


def test_change_feed_has_what_each_commit_changed(tmp_path: Path) -> None:
    tables(tmp_path).append([revision(1, "insert", "a", 1), revision(2, "insert", "b", 2)])
    tables(tmp_path).append(
        [
            revision(3, "update", "a", 3),
            revision(4, "delete", "b", 0),
            revision(5, "insert", "c", 5),
            revision(6, "delete", "never", 0),
        ]
    )
    assert read_changes(tmp_path, 1) == [("insert", "a", '{"v":1}'), ("insert", "b", '{"v":2}')]
    assert read_changes(tmp_path, 2) == [
        ("delete", "b", '{"v":2}'),
        ("insert", "c", '{"v":5}'),
        ("update_postimage", "a", '{"v":3}'),
        ("update_preimage", "a", '{"v":1}'),
    ]


def test_small_files_are_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archiver.delta.revision_table._MAX_FILES", 4)
    monkeypatch.setattr(unpartitioned, "_CHECKPOINT_INTERVAL", 5)
    for seq in range(1, 14):
        tables(tmp_path).append([revision(seq, "insert", f"k{seq}", seq)])
    for folder in (tmp_path / "recalls").glob("*/*"):
        assert len(DeltaTable(folder).file_uris()) <= 5
        assert (folder / "_delta_log" / "_last_checkpoint").exists()
    assert len(read_rows(tmp_path)) == 13
    assert [item.seq for item in tables(tmp_path).read(0, 99)] == list(range(1, 14))
    assert damaged(tmp_path) == []
    assert tables(tmp_path).last_number() == 13


def test_expired_rows_are_deleted_and_their_files_removed(tmp_path: Path) -> None:
    streams = [revision(n, "insert", "k", n, f"e{n}") for n in range(1, 5)]
    tables(tmp_path).append(streams[:2])
    tables(tmp_path).append(streams[2:])
    tables(tmp_path).delete_before(START + timedelta(minutes=2), 3_600.0)
    assert read_changes(tmp_path, 3) == [("delete", "k", '{"v":1}')]
    tables(tmp_path).delete_before(START + timedelta(minutes=4), 0.0)
    assert read_rows(tmp_path) == {("e4", "k"): '{"v":4}'}
    assert [item.seq for item in tables(tmp_path).read(0, 99)] == [4]
    assert damaged(tmp_path) == []
    for folder in (tmp_path / "recalls").glob("*/*"):
        assert len(list(folder.glob("*.parquet"))) == 1
    assert not list((tmp_path / "recalls").glob("*/*/_change_data/*"))
    tables(tmp_path).append(streams)  # a repetition
    assert read_rows(tmp_path) == {("e4", "k"): '{"v":4}'}


def test_commit_of_another_process_is_not_overwritten(tmp_path: Path) -> None:
    first, second = (
        unpartitioned.UnpartitionedTable(tmp_path, pa.schema([("ts", pa.int64())]), "a")
        for _ in range(2)
    )
    first.commit("WRITE", [pa.table({"ts": [1]})], number=1)
    with pytest.raises(CommitConflict):
        second.commit("WRITE", [pa.table({"ts": [1]})], number=1)


OPERATIONS = st.lists(
    st.lists(
        st.tuples(st.sampled_from(["insert", "update", "delete", "boundary"]), st.integers(0, 4)),
        min_size=1,
        max_size=5,
    ),
    max_size=6,
)


@given(OPERATIONS)
@settings(max_examples=25, deadline=None)
def test_rows_are_those_after_the_last_revision(
    tmp_path_factory: pytest.TempPathFactory, batches: Sequence[Sequence[tuple[str, int]]]
) -> None:
    root = tmp_path_factory.mktemp("revisions")
    expected: dict[tuple[str, str], Any] = {}
    seq = 0
    for batch in batches:
        revisions = []
        for op, key in batch:
            seq += 1
            revisions.append(revision(seq, op, f"k{key}", seq))
            if op == "delete":
                expected.pop(("e", f"k{key}"), None)
            elif op != "boundary":
                expected["e", f"k{key}"] = f'{{"v":{seq}}}'
        tables(root).append(revisions)
        tables(root).append(revisions)
        assert read_rows(root) == expected
    if batches:
        assert tables(root).last_number() == seq
