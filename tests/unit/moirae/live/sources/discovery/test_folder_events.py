"""Entries that come and go in folders, as the kernel reports them."""

import os
import sys
from pathlib import Path

import pytest

from moirae.live.sources.discovery.folder_events import FolderEvent, FolderEvents

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify is of Linux")


def test_names_are_reported_in_order(tmp_path: Path) -> None:
    folder = str(tmp_path)
    events = FolderEvents([folder])
    assert events.read() == []
    (tmp_path / ".a").touch()
    (tmp_path / ".a").rename(tmp_path / "a")
    Path(os.fsdecode(os.fsencode(folder) + b"/l\xe9")).symlink_to("a")
    (tmp_path / "a").unlink()
    assert events.read() == [
        FolderEvent(folder, ".a", True),
        FolderEvent(folder, ".a", False),
        FolderEvent(folder, "a", True),
        FolderEvent(folder, "l\udce9", True),
        FolderEvent(folder, "a", False),
    ]
    events.close()
    assert events.read() is None


def test_folders_that_appear_or_are_replaced_must_be_listed(tmp_path: Path) -> None:
    inner = tmp_path / "in"
    inner.mkdir()
    events = FolderEvents([str(tmp_path), str(inner)])
    (inner / "sub").mkdir()
    assert events.read() is None
    assert events.read() == []
    inner.rename(tmp_path / "out")
    assert events.read() is None
    events.close()


def test_missing_folder_is_not_watched(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        FolderEvents([str(tmp_path), str(tmp_path / "missing")])
