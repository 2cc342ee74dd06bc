"""When unreferenced files are removed."""

from collections.abc import Collection
from pathlib import Path

from archiver.delta.vacuum import Vacuum
from archiver.storage.base import LocalStorage


class FakeStorage(LocalStorage):
    """Records removals."""

    def __init__(self, folder: Path, min_file_retention: float = 0.0) -> None:
        super().__init__(folder)
        self.min_file_retention = min_file_retention
        self.removed: list[str] = []

    def remove(self, name: str) -> None:
        self.removed.append(name)


class FakeTable:
    """A table with a settable list of unreferenced files."""

    def __init__(self, storage: FakeStorage, *unreferenced: str) -> None:
        self.storage = storage
        self.unreferenced = list(unreferenced)
        self.checkpoints = 0

    def unreferenced_files(self, history: float = 0.0) -> list[str]:
        return self.unreferenced

    def forget_files(self, paths: Collection[str]) -> None:
        self.unreferenced = [path for path in self.unreferenced if path not in paths]

    def checkpoint(self) -> None:
        self.checkpoints += 1


def test_file_is_removed_once_its_retention_has_passed() -> None:
    storage = FakeStorage(Path("a"))
    table, vacuum = FakeTable(storage, "chunk=0/a-file"), Vacuum(10.0)
    for now in (100.0, 109.0):
        vacuum.run([table], now)
        assert storage.removed == []
    vacuum.run([table], 110.0)
    assert storage.removed == ["chunk=0/a-file"]
    assert table.checkpoints == 3


def test_file_that_is_referenced_meanwhile_starts_again() -> None:
    storage = FakeStorage(Path("a"))
    table, vacuum = FakeTable(storage, "chunk=0/a-file"), Vacuum(10.0)
    vacuum.run([table], 0.0)
    table.unreferenced = []
    vacuum.run([table], 5.0)
    table.unreferenced = ["chunk=0/a-file"]
    vacuum.run([table], 10.0)
    assert storage.removed == []


def test_storage_may_require_a_longer_retention() -> None:
    short, long = FakeStorage(Path("a")), FakeStorage(Path("b"), min_file_retention=20.0)
    vacuum = Vacuum(10.0)
    for now in (0.0, 10.0):
        vacuum.run([FakeTable(short, "chunk=0/a-file"), FakeTable(long, "chunk=0/a-file")], now)
    assert (short.removed, long.removed) == (["chunk=0/a-file"], [])


def test_uncommitted_files_of_other_programs_stay_for_a_day() -> None:
    storage = FakeStorage(Path("a"))
    table, vacuum = FakeTable(storage, "chunk=0/part-1.parquet"), Vacuum(10.0)
    for now in (0.0, 86_399.0):
        vacuum.run([table], now)
        assert storage.removed == []
    vacuum.run([table], 86_400.0)
    assert storage.removed == ["chunk=0/part-1.parquet"]
