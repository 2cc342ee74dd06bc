"""Unread files, with folders that are listed only when needed."""

import os
import time
from collections.abc import Set
from pathlib import Path

import pytest

from moirae.live.sources.unread_files import UnreadFilesCheck, list_folders

_LONG_AGO = time.time() - 3600  # a modification time that is trusted


class _Ledger:
    """The archived files, and how often all names were compared with them."""

    def __init__(self) -> None:
        self.archived: set[str] = set()
        self.listings = 0

    def has_unread(self, names: Set[str]) -> bool:
        self.listings += 1
        return not names <= self.archived


def _set_time(folder: Path, seconds: float = _LONG_AGO) -> None:
    os.utime(folder, (seconds, seconds))


def test_unchanged_folder_is_not_listed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moirae.live.sources.unread_files._MIN_LISTING_INTERVAL", 1000.0)
    (tmp_path / "a.jsonl").touch()
    _set_time(tmp_path)
    ledger = _Ledger()
    check = UnreadFilesCheck(str(tmp_path / "*.jsonl"), tmp_path, ledger.has_unread)
    assert check()
    assert check(), "unread until it is archived"
    ledger.archived = {"a.jsonl"}
    assert not check()
    listings = ledger.listings
    assert not check()
    assert ledger.listings == listings
    (tmp_path / "b.jsonl").touch()
    assert check()


def test_folder_that_just_changed_is_listed_again(tmp_path: Path) -> None:
    ledger = _Ledger()
    check = UnreadFilesCheck(str(tmp_path / "*.jsonl"), tmp_path, ledger.has_unread)
    assert not check()
    changed_at = tmp_path.stat().st_mtime
    (tmp_path / "a.jsonl").touch()
    _set_time(tmp_path, changed_at)  # as if both changes were in one tick of the clock
    assert check()


def test_folder_without_a_new_time_is_listed_after_the_interval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moirae.live.sources.unread_files._MIN_LISTING_INTERVAL", 0.05)
    _set_time(tmp_path)
    ledger = _Ledger()
    check = UnreadFilesCheck(str(tmp_path / "*.jsonl"), tmp_path, ledger.has_unread)
    assert not check()
    (tmp_path / "a.jsonl").touch()
    _set_time(tmp_path)
    time.sleep(0.5)
    assert check()


def test_new_folders_of_a_glob_are_seen(tmp_path: Path) -> None:
    pattern = str(tmp_path / "in" / "*" / "x" / "*.csv")
    (tmp_path / "in" / "a" / "x").mkdir(parents=True)
    for folder in (tmp_path, tmp_path / "in", tmp_path / "in" / "a", tmp_path / "in" / "a" / "x"):
        _set_time(folder)
    assert set(list_folders(pattern)) == {
        str(tmp_path / "in" / "a" / "x"),
        str(tmp_path / "in" / "a"),
        str(tmp_path / "in"),
    }
    ledger = _Ledger()
    check = UnreadFilesCheck(pattern, tmp_path, ledger.has_unread)
    assert not check()
    (tmp_path / "in" / "b" / "x").mkdir(parents=True)
    (tmp_path / "in" / "b" / "x" / "1.csv").touch()
    assert check()


def test_missing_folder_has_no_unread_files(tmp_path: Path) -> None:
    ledger = _Ledger()
    check = UnreadFilesCheck(str(tmp_path / "in" / "*.csv"), tmp_path, ledger.has_unread)
    assert not check()
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").touch()
    assert check()
