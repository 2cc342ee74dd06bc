"""Batches in a landing folder are complete and durable when they appear."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from moirae.runtime.storage.landing_folder import LandingFolder


def test_batch_is_synced_before_it_appears(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is synced, then renamed; last the folder with the name is synced."""
    calls: list[tuple[str, Any]] = []
    fsync, replace = os.fsync, os.replace
    landing = LandingFolder(tmp_path, "cpu")

    def record_fsync(handle: int) -> None:
        status = os.fstat(handle)
        calls.append(("folder", None) if stat.S_ISDIR(status.st_mode) else ("file", status.st_size))
        fsync(handle)

    def record_replace(old: Path, new: Path) -> None:
        calls.append(("renamed", new.name))
        replace(old, new)

    monkeypatch.setattr(os, "fsync", record_fsync)
    monkeypatch.setattr(os, "replace", record_replace)
    landing.write_batch("a", ".jsonl", b"{}\n" * 7)
    assert calls == [("file", 21), ("renamed", "a.jsonl"), ("folder", None)]
    assert [batch.name for batch in landing.pending_batches()] == ["a"]


def test_interrupted_batch_never_appears(tmp_path: Path) -> None:
    landing = LandingFolder(tmp_path, "cpu")

    def write_interrupted() -> None:
        with landing.open_batch("a", ".jsonl") as file:
            file.write(b"{}")
            raise ConnectionError

    with pytest.raises(ConnectionError):
        write_interrupted()
    assert list(landing.folder.iterdir()) == []
