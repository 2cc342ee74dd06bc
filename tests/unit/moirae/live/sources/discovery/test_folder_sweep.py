"""Folders listed a little at a time."""

from pathlib import Path

import pytest

from moirae.live.sources.discovery import folder_sweep
from moirae.live.sources.discovery.folder_sweep import FolderSweep


def test_each_call_lists_a_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_sweep, "_SLICE_SECONDS", -1.0)
    monkeypatch.setattr(folder_sweep, "_NAMES_BETWEEN_LOOKS", 2)
    for number in range(6):
        (tmp_path / f"{number}").touch()
    sweep = FolderSweep([str(tmp_path), str(tmp_path / "missing"), str(tmp_path / "0")])
    assert [sweep.advance() for _ in range(4)] == [False, False, False, True]
    assert sweep.names[str(tmp_path)] == set("012345")
    assert sweep.names[str(tmp_path / "missing")] == sweep.names[str(tmp_path / "0")] == set()
