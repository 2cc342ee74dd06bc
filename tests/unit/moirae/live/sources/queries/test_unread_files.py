"""Unread files, with folders that are listed only when needed."""

import os
import time
from pathlib import Path

import pytest

from moirae.live.sources.files import DiscoveredFile
from moirae.live.sources.queries.unread_files import UnreadFilesCheck, list_folders

_LONG_AGO = time.time() - 3600  # a modification time that is trusted


class _Ledger:
    """The archived files, and how often all names were compared with them."""

    def __init__(self) -> None:
        self.archived: set[str] = set()
        self.listings = 0

    def find_unread(self, names: set[str]) -> set[str]:
        self.listings += 1
        return names - self.archived


def _set_time(folder: Path, seconds: float = _LONG_AGO) -> None:
    os.utime(folder, (seconds, seconds))


def test_unchanged_folder_is_not_listed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moirae.live.sources.queries.unread_files._MIN_LISTING_INTERVAL", 1000.0)
    (tmp_path / "a.jsonl").touch()
    _set_time(tmp_path)
    ledger = _Ledger()
    check = UnreadFilesCheck("s", str(tmp_path / "*.jsonl"), tmp_path, ledger.find_unread)
    assert check.has_unread()
    assert check.has_unread(), "unread until it is archived"
    ledger.archived = {"a.jsonl"}
    assert not check.has_unread()
    listings = ledger.listings
    assert not check.has_unread()
    assert ledger.listings == listings
    (tmp_path / "b.jsonl").touch()
    assert check.has_unread()


def test_folder_that_just_changed_is_listed_again(tmp_path: Path) -> None:
    ledger = _Ledger()
    check = UnreadFilesCheck("s", str(tmp_path / "*.jsonl"), tmp_path, ledger.find_unread)
    assert not check.has_unread()
    changed_at = tmp_path.stat().st_mtime
    (tmp_path / "a.jsonl").touch()
    _set_time(tmp_path, changed_at)  # as if both changes were in one tick of the clock
    assert check.has_unread()


def test_folder_without_a_new_time_is_listed_after_the_interval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moirae.live.sources.queries.unread_files._MIN_LISTING_INTERVAL", 0.05)
    _set_time(tmp_path)
    ledger = _Ledger()
    check = UnreadFilesCheck("s", str(tmp_path / "*.jsonl"), tmp_path, ledger.find_unread)
    assert not check.has_unread()
    (tmp_path / "a.jsonl").touch()
    _set_time(tmp_path)
    time.sleep(0.5)
    assert check.has_unread()


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
    check = UnreadFilesCheck("s", pattern, tmp_path, ledger.find_unread)
    assert not check.has_unread()
    (tmp_path / "in" / "b" / "x").mkdir(parents=True)
    (tmp_path / "in" / "b" / "x" / "1.csv").touch()
    assert check.has_unread()


def test_missing_folder_has_no_unread_files(tmp_path: Path) -> None:
    ledger = _Ledger()
    check = UnreadFilesCheck("s", str(tmp_path / "in" / "*.csv"), tmp_path, ledger.find_unread)
    assert not check.has_unread()
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").touch()
    assert check.has_unread()


def test_unread_files_are_found_with_time_and_size(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / "1.csv"
    path.write_text("ts\n")
    _set_time(path, 1_767_225_600.25)
    (tmp_path / "in" / "folder.csv").mkdir()
    (tmp_path / "in" / ".2.csv").touch()
    ledger = _Ledger()
    pattern = str(tmp_path / "home" / ".." / "in" / "*.csv")
    check = UnreadFilesCheck("s", pattern, tmp_path, ledger.find_unread)
    assert check.find() == [DiscoveredFile("s", path, 1_767_225_600_250_000, 3)]
    ledger.archived = {"in/1.csv"}
    assert check.find() == []


def test_glob_that_only_spark_understands_may_have_unread_files(tmp_path: Path) -> None:
    check = UnreadFilesCheck("s", str(tmp_path / "{a,b}.csv"), tmp_path, _Ledger().find_unread)
    assert check.has_unread()
