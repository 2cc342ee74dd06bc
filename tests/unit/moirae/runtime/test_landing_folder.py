"""Batches that land: whole and durable when they appear."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from moirae.runtime.landing_folder import LandingFolder


def test_a_batch_is_on_the_disk_before_it_appears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file first, whole; then its name, and the folder that holds the name."""
    done: list[tuple[str, Any]] = []
    fsync, replace = os.fsync, os.replace
    landing = LandingFolder(tmp_path, "cpu")

    def flushed(handle: int) -> None:
        found = os.fstat(handle)
        done.append(("folder", None) if stat.S_ISDIR(found.st_mode) else ("file", found.st_size))
        fsync(handle)

    def named(old: Path, new: Path) -> None:
        done.append(("named", new.name))
        replace(old, new)

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(os, "replace", named)
    landing.write_batch("a", ".jsonl", b"{}\n" * 7)
    assert done == [("file", 21), ("named", "a.jsonl"), ("folder", None)]
    assert [batch.name for batch in landing.pending_batches()] == ["a"]


def test_a_batch_that_breaks_off_never_appears(tmp_path: Path) -> None:
    landing = LandingFolder(tmp_path, "cpu")

    def put() -> None:
        with landing.open_batch("a", ".jsonl") as file:
            file.write(b"{}")
            raise ConnectionError

    with pytest.raises(ConnectionError):
        put()
    assert list(landing.folder.iterdir()) == []
