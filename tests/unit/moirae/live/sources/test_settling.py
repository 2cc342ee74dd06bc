"""Archived files are deleted or moved, unless they were changed since."""

import errno
import os
from pathlib import Path

import pytest

from moirae.live.sources.files import DiscoveredFile, stat_file
from moirae.live.sources.settling import SourceSettling


def discover(path: Path, text: str = "a") -> DiscoveredFile:
    path.write_text(text)
    file = stat_file("s", path)
    assert file is not None
    return file


def test_archived_files_are_kept_deleted_or_moved(tmp_path: Path) -> None:
    for after, names in (("keep", ["in"]), ("delete", []), (f"move:{tmp_path}/old/x", ["old"])):
        file = discover(tmp_path / "in")
        SourceSettling(after).settle(file)
        assert sorted(os.listdir(tmp_path)) == names
        (tmp_path / "in").unlink(missing_ok=True)
    assert (tmp_path / "old" / "x" / "in").read_text() == "a"


def test_changed_and_missing_files_stay_as_they_are(tmp_path: Path) -> None:
    file = discover(tmp_path / "in")
    (tmp_path / "in").write_text("ab")
    SourceSettling("delete").settle(file)
    assert (tmp_path / "in").read_text() == "ab"
    (tmp_path / "in").unlink()
    SourceSettling("delete").settle(file)


def test_files_of_one_name_do_not_replace_each_other(tmp_path: Path) -> None:
    settling = SourceSettling(f"move:{tmp_path}/old")
    for text in ("a", "b"):
        settling.settle(discover(tmp_path / "in", text))
    assert (tmp_path / "old" / "in").read_text() == "a"
    assert (tmp_path / "old" / "in.1").read_text() == "b"


def test_files_are_copied_to_another_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash between copy and deletion leaves both; the next process deletes the original."""
    replace = os.replace

    def refuse(source: Path, target: Path) -> None:
        if Path(source).parent != Path(target).parent:
            raise OSError(errno.EXDEV, "other file system")
        replace(source, target)

    monkeypatch.setattr(os, "replace", refuse)
    settling = SourceSettling(f"move:{tmp_path}/old")
    file = discover(tmp_path / "in")
    with monkeypatch.context() as crash:
        crash.setattr(Path, "unlink", lambda _: (_ for _ in ()).throw(OSError(errno.EIO, "crash")))
        settling.settle(file)
    assert (tmp_path / "in").exists() and (tmp_path / "old" / "in").exists()
    settling.settle(file)
    assert not (tmp_path / "in").exists() and os.listdir(tmp_path / "old") == ["in"]


def test_failures_are_logged_and_the_file_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Path) -> None:
        raise OSError(errno.EACCES, "permission denied")

    monkeypatch.setattr(Path, "unlink", refuse)
    SourceSettling("delete").settle(discover(tmp_path / "in"))
    assert (tmp_path / "in").exists()
