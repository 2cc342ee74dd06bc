"""Files that were renamed after they were read."""

import gzip
import shutil
from collections.abc import Collection
from pathlib import Path

import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from moirae.live.sources.discovery.renamed_files import RenamedFiles
from moirae.live.sources.files import DiscoveredFile, stat_file


class Ledger:
    """The files that were read, the last first."""

    def __init__(self, folder: Path) -> None:
        self._stamps: list[tuple[str, str]] = []
        self._stamps_by_name: dict[str, tuple[str, str]] = {}
        self._renamed_files = RenamedFiles(
            "s", folder, self.list_stamps, lambda names: self._stamps_by_name
        )

    def list_stamps(self, inodes: Collection[int]) -> list[tuple[str, str]]:
        return [pair for pair in self._stamps if int(pair[0].partition(":")[0]) in inodes]

    def read(self, *paths: Path) -> list[str | None]:
        """Read files; returns their places."""
        files: list[DiscoveredFile] = []
        for path in paths:
            file = stat_file("s", path)
            assert file is not None
            files.append(file)
        places: list[str | None] = []
        for file in self._renamed_files.find_places(files):
            assert file.stamp is not None and file.place is not None
            self._stamps.insert(0, (file.stamp, file.place))
            self._stamps_by_name[file.path.name] = (file.stamp, file.place)
            places.append(file.place)
        return places


def test_a_file_has_the_place_where_it_was_first_read(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    log = tmp_path / "a.log"
    log.write_text("x\n")
    with capture_logs() as logs:
        assert ledger.read() == []
        assert ledger.read(log) == ["a.log"]
        assert ledger.read(log) == ["a.log"]
    assert logs == []
    log.rename(tmp_path / "a.log.1")
    shutil.copy2(tmp_path / "a.log.1", log)
    with capture_logs() as logs:
        assert ledger.read(tmp_path / "a.log.1", log) == ["a.log", "a.log"]
        (tmp_path / "a.log.1").rename(tmp_path / "a.log.2")
        assert ledger.read(tmp_path / "a.log.2") == ["a.log"]
    assert [(entry["name"], entry["read_as"]) for entry in logs] == [("a.log.1", "a.log")]


def test_a_file_that_has_grown_before_it_was_renamed_is_known(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    log = tmp_path / "a.log"
    log.write_text("x" * 2000)
    ledger.read(log)
    with log.open("a") as file:
        file.write("y\n")
    log.rename(tmp_path / "b.log")
    assert ledger.read(tmp_path / "b.log") == ["a.log"]


def test_another_file_with_the_inode_of_one_that_was_read_is_another_file(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    log = tmp_path / "a.log"
    log.write_text("x\n")
    ledger.read(log)
    log.write_text("longer\n")  # an inode that is used again
    log.rename(tmp_path / "b.log")
    assert ledger.read(tmp_path / "b.log") == ["b.log"]
    (tmp_path / "empty.log").touch()
    ledger.read(tmp_path / "empty.log")
    (tmp_path / "empty.log").write_text("x\n")
    (tmp_path / "empty.log").rename(tmp_path / "c.log")
    assert ledger.read(tmp_path / "c.log") == ["c.log"]


def test_links_are_one_file(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    (tmp_path / "a.log").write_text("x\n")
    (tmp_path / "b.log").symlink_to(tmp_path / "a.log")
    assert ledger.read(tmp_path / "a.log", tmp_path / "b.log") == ["a.log", "a.log"]


@pytest.mark.parametrize("size", [10, 5_000])
def test_a_compressed_file_has_the_place_of_the_plain_one(tmp_path: Path, size: int) -> None:
    ledger = Ledger(tmp_path)
    log = tmp_path / "a.log"
    log.write_bytes(b"x" * size)
    ledger.read(log)
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(b"x" * size + b"grown"))
    (tmp_path / "a.log.zst").write_bytes(pa.compress(b"x" * size, "zstd", asbytes=True))
    log.unlink()
    assert ledger.read(tmp_path / "a.log.gz", tmp_path / "a.log.zst") == ["a.log"] * 2


def test_another_compressed_file_is_another_file(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    for name, content in (("a.log", b"first\n"), ("empty.log", b"")):
        (tmp_path / name).write_bytes(content)
        ledger.read(tmp_path / name)
    contents = {
        "a.log.gz": gzip.compress(b"other\n"),
        "empty.log.gz": gzip.compress(b"x\n"),
        "b.log.gz": gzip.compress(b"first\n"),
        "a.log.zst": b"no zstd",
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
        assert ledger.read(tmp_path / name) == [name]
