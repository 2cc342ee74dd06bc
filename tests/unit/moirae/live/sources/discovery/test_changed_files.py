"""Files that are changed after they were read."""

import os
from collections.abc import Callable, Collection
from pathlib import Path

from structlog.testing import capture_logs

from moirae.live.sources.discovery.changed_files import ChangedFiles
from moirae.live.sources.discovery.recorded_versions import RecordedVersions
from sql.archive import FileVersionRow


class Ledger:
    """The versions of files that were read."""

    def __init__(self, folder: Path) -> None:
        self.now = 0.0
        self.versions: dict[str, FileVersionRow] = {}
        self.before_comparison: Callable[[], None] = lambda: None
        self.changed_files = ChangedFiles(
            "s",
            folder,
            iterate_paths=lambda: iter(sorted(map(str, folder.iterdir()))),
            versions=RecordedVersions("s", self.list_versions, self.adopt),
            clock=lambda: self.now,
        )

    def list_versions(self, names: Collection[str]) -> dict[str, FileVersionRow]:
        self.before_comparison()
        return {name: self.versions[name] for name in names if name in self.versions}

    def adopt(self, version: FileVersionRow) -> None:
        self.versions[version.unit] = version

    def find(self) -> list[tuple[str, int]]:
        """Names and readings of the files to be read again; records them as read."""
        self.now += 2
        found = self.changed_files.find_changed()
        for file in found:
            name = os.path.basename(str(file.path))
            self.adopt(FileVersionRow(name, file.size, file.modified, file.reading))
        return [(os.path.basename(str(file.path)), file.reading) for file in found]


def test_a_file_is_read_again_when_its_size_or_time_differs(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    path = tmp_path / "a.jsonl"
    path.write_text("{}\n")
    assert ledger.find() == []  # not read yet
    ledger.versions["a.jsonl"] = FileVersionRow("a.jsonl", None, None)
    assert ledger.find() == []  # adopted: read before versions were recorded
    with capture_logs() as logs:
        (tmp_path / "new").write_text("{}\n{}\n")
        (tmp_path / "new").replace(path)
        assert ledger.find() == [("a.jsonl", 2)]
        os.utime(path, (1, 1))
        assert ledger.find() == [("a.jsonl", 3)]
    assert ledger.find() == []
    assert [entry["action"] for entry in logs] == ["file_rewritten"]


def test_a_copy_with_equal_size_and_time_is_no_change(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    path = tmp_path / "a.jsonl"
    path.write_text("{}\n")
    ledger.versions["a.jsonl"] = FileVersionRow("a.jsonl", None, None)
    ledger.find()
    status = path.stat()
    (tmp_path / "copy").write_text("{}\n")
    (tmp_path / "copy").replace(path)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert ledger.find() == []


def test_a_file_that_is_read_after_it_was_looked_at_is_no_change(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    path = tmp_path / "a.jsonl"
    path.write_text("{}\n")

    def read_meanwhile() -> None:
        ledger.before_comparison = lambda: None
        path.write_text("{}\n{}\n")
        status = path.stat()
        modified = status.st_mtime_ns // 1_000_000 * 1000
        ledger.adopt(FileVersionRow("a.jsonl", status.st_size, modified))

    ledger.before_comparison = read_meanwhile
    assert ledger.find() == []
