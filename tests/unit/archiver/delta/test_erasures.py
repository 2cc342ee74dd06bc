"""Rows that other programs have deleted, by the log of the table."""

from pathlib import Path

from deltalake import DeltaTable

from archiver.delta.erasures import find_erasures
from archiver.delta.table import StreamTable
from tests.unit.archiver.delta.test_table import SCHEMA, rows


def test_deleted_rows_are_told_while_their_files_exist(tmp_path: Path) -> None:
    table = StreamTable(tmp_path, SCHEMA)
    for number in (1, 2):
        table.append(rows(range(5 * number, 5 * number + 5), chunk=number), number)
    table.cluster(2)
    erasures = find_erasures(table.files)
    assert (erasures.commits, erasures.ids, erasures.unknown_chunks) == ([], set(), set())
    folder = tmp_path / "streams" / "s"
    DeltaTable(folder).delete("n IN (6, 11, 12)")
    appended = rows(range(5, 15)).to_pylist()
    erasures = find_erasures(table.files)
    assert erasures.ids == {row["_id"] for row in appended if row["n"] in (6, 11, 12)}
    assert erasures.rows_by_unit == {1: 3}
    assert not erasures.unknown_chunks
    (commit,) = erasures.commits
    assert commit.startswith("DELETE by delta-rs") and commit.endswith("version 4")
    for path in (folder / "chunk=1").glob("a-*"):
        path.unlink()
    erasures = find_erasures(table.files)
    assert erasures.unknown_chunks == {1, 2}
    assert not erasures.ids
