"""Data files that are read again in the background."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from archiver.delta.file_checks import ExpectedFile
from archiver.delta.schema import StreamSchema
from archiver.delta.table import StreamTable
from moirae.live.file_checks import FileChecks, select_due
from sql.archive import FileCheckRow

NOW = datetime(2026, 1, 8, tzinfo=UTC)
SCHEMA = StreamSchema(
    "s", {"ts": "timestamp", "n": "bigint"}, "ts", None, (), timedelta(0), timedelta(0)
)


class _Checks:
    """The records of `file_checks`."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, FileCheckRow]] = {}
        self.now = NOW

    def list_of_table(self, table: str) -> list[FileCheckRow]:
        return list(self.rows.get(table, {}).values())

    def put(self, table: str, checks: list[tuple[str, str | None, str | None]]) -> None:
        for path, digest, problem in checks:
            row = FileCheckRow(path, digest, self.now, problem)
            self.rows.setdefault(table, {})[path] = row

    def forget(self, table: str, paths: set[str]) -> None:
        for path in paths:
            del self.rows[table][path]

    def forget_other_tables(self, tables: list[str]) -> None:
        self.rows = {table: rows for table, rows in self.rows.items() if table in tables}

    def problems(self) -> list[str]:
        rows = [row for table in self.rows.values() for row in table.values()]
        return [row.problem for row in rows if row.problem is not None]


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _run(root: Path, checks: _Checks, days: int) -> None:
    checks.now = NOW + timedelta(days=days)
    FileChecks(root, checks, timedelta(days=7), lambda: checks.now).run_once()  # type: ignore[arg-type]


def test_files_are_due_by_age() -> None:
    files = [ExpectedFile(name, 1, "d") for name in ("new", "old", "recent", "bad")]
    files.append(ExpectedFile("unknown", 1, None))
    checks = {
        "old": FileCheckRow("old", None, NOW - timedelta(days=8), None),
        "recent": FileCheckRow("recent", None, NOW - timedelta(days=1), None),
        "bad": FileCheckRow("bad", None, NOW - timedelta(days=1), "is missing"),
    }
    due = select_due(files, checks, NOW - timedelta(days=7))
    assert [file.path for file in due] == ["unknown", "old", "bad"]


def test_changed_byte_is_found_and_forgotten_once_it_is_repaired(tmp_path: Path) -> None:
    table = StreamTable(tmp_path, SCHEMA)
    rows = {"ts": [NOW, NOW], "n": [1, 2], "_id": [b"1" * 16, b"2" * 16]}
    for name in table.files.arrow_schema.names:
        if name not in rows:
            field = table.files.arrow_schema.field(name)
            rows[name] = pa.array([0, 0]).cast(field.type) if name != "_extra" else [None, None]
    table.append(pa.table(rows).select(table.files.arrow_schema.names), 0)
    (file,) = table.data_files()
    path = tmp_path / "streams" / "s" / file.path
    content = path.read_bytes()
    checks = _Checks()
    _run(tmp_path, checks, 0)
    assert checks.list_of_table("streams/s") == [FileCheckRow(file.path, None, NOW, None)]
    _flip(path)
    _run(tmp_path, checks, 1)
    assert checks.problems() == []
    _run(tmp_path, checks, 8)
    assert checks.problems() == [f"{file.path} is not what was written: its SHA-256 differs"]
    path.unlink()
    _run(tmp_path, checks, 8)
    assert checks.problems() == [f"{file.path} is missing"]
    path.write_bytes(content)
    _run(tmp_path, checks, 8)
    assert checks.problems() == []
    table.delete_chunk(file.chunk)
    _run(tmp_path, checks, 8)
    assert checks.list_of_table("streams/s") == []


@pytest.mark.parametrize("damage", [_flip, Path.unlink])
def test_file_of_another_program_is_compared_with_its_first_reading(
    tmp_path: Path, damage: object
) -> None:
    write_deltalake(tmp_path / "streams" / "s", pa.table({"n": list(range(100))}))
    checks = _Checks()
    _run(tmp_path, checks, 0)
    (row,) = checks.list_of_table("streams/s")
    assert row.digest is not None
    damage(tmp_path / "streams" / "s" / row.path)  # type: ignore[operator]
    _run(tmp_path, checks, 8)
    assert len(checks.problems()) == 1
    assert checks.list_of_table("streams/s")[0].digest == row.digest
