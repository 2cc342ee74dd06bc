"""New files, with folders that are listed only when needed."""

import os
import sys
import time
from collections.abc import Iterator, Sequence, Set
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from archiver.globs import escape_glob
from moirae.live.sources.discovery import folder_sweep, folders
from moirae.live.sources.discovery.folder_events import FolderEvent, FolderEvents
from moirae.live.sources.discovery.folders import FolderDiscovery
from moirae.live.sources.files import DiscoveredFile

_LONG_AGO = time.time() - 3600  # a modification time that is trusted


class _Ledger:
    """The archived files, and the names that were looked up."""

    def __init__(self) -> None:
        self.archived: set[str] = set()
        self.requested: list[str] = []

    def find_archived(self, names: Set[str]) -> Set[str]:
        self.requested += sorted(names)
        return names & self.archived


@pytest.fixture
def ledger() -> _Ledger:
    return _Ledger()


@pytest.fixture(autouse=True)
def _no_pause_between_listings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "_BUSY_LISTING_SHARE", 1.0)


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders that were listed."""
    calls: list[str] = []
    listdir = os.listdir

    def list_folder(folder: str) -> list[str]:
        calls.append(folder)
        return listdir(folder)

    monkeypatch.setattr(os, "listdir", list_folder)
    return calls


def _set_time(folder: Path, seconds: float = _LONG_AGO) -> None:
    os.utime(folder, (seconds, seconds))


def _names(files: Sequence[DiscoveredFile]) -> list[str]:
    return sorted(os.path.basename(str(file.path)) for file in files)


def test_file_is_found_once(tmp_path: Path, ledger: _Ledger) -> None:
    discovery = FolderDiscovery("s", str(tmp_path / "*.jsonl"), tmp_path, ledger.find_archived)
    (tmp_path / "a.jsonl").touch()
    (tmp_path / "old.jsonl").touch()
    ledger.archived = {"old.jsonl"}
    assert _names(discovery.find_new()) == ["a.jsonl"]
    (tmp_path / "b.jsonl").touch()
    assert _names(discovery.find_new()) == ["b.jsonl"]
    assert discovery.find_new() == []
    assert ledger.requested == ["a.jsonl", "old.jsonl", "b.jsonl"], "each name once"


def test_unchanged_folder_is_not_listed_again(
    tmp_path: Path, ledger: _Ledger, listed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "_MIN_LISTING_INTERVAL", 1000.0)
    (tmp_path / "a.jsonl").touch()
    _set_time(tmp_path)
    discovery = FolderDiscovery("s", str(tmp_path / "*.jsonl"), tmp_path, ledger.find_archived)
    assert _names(discovery.find_new()) == ["a.jsonl"]
    listed.clear()
    assert discovery.find_new() == []
    assert listed == []
    (tmp_path / "b.jsonl").touch()
    assert _names(discovery.find_new()) == ["b.jsonl"]


def test_folder_that_just_changed_is_listed_again(tmp_path: Path, ledger: _Ledger) -> None:
    discovery = FolderDiscovery("s", str(tmp_path / "*.jsonl"), tmp_path, ledger.find_archived)
    assert discovery.find_new() == []
    changed_at = tmp_path.stat().st_mtime
    (tmp_path / "a.jsonl").touch()
    _set_time(tmp_path, changed_at)  # as if both changes were in one tick of the clock
    assert _names(discovery.find_new()) == ["a.jsonl"]


def test_folder_without_a_new_time_is_listed_after_the_interval(
    tmp_path: Path, ledger: _Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "_MIN_LISTING_INTERVAL", 0.05)
    _set_time(tmp_path)
    discovery = FolderDiscovery("s", str(tmp_path / "*.jsonl"), tmp_path, ledger.find_archived)
    assert discovery.find_new() == []
    (tmp_path / "a.jsonl").touch()
    _set_time(tmp_path)
    deadline = time.monotonic() + 30
    while not (files := discovery.find_new()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert _names(files) == ["a.jsonl"]


def test_listings_of_a_changing_folder_take_a_share_of_the_time(
    tmp_path: Path, ledger: _Ledger, listed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "_BUSY_LISTING_SHARE", 0.0001)
    discovery = FolderDiscovery("s", str(tmp_path / "*.jsonl"), tmp_path, ledger.find_archived)
    discovery.find_new()
    discovery.find_new()
    assert len(listed) == 1


def test_new_folders_of_a_glob_are_seen(tmp_path: Path, ledger: _Ledger) -> None:
    pattern = str(tmp_path / "in" / "*" / "x" / "*.csv")
    (tmp_path / "in" / "a" / "x").mkdir(parents=True)
    (tmp_path / "in" / ".hidden" / "x").mkdir(parents=True)
    (tmp_path / "in" / ".hidden" / "x" / "2.csv").touch()
    for folder in (tmp_path, tmp_path / "in", tmp_path / "in" / "a", tmp_path / "in" / "a" / "x"):
        _set_time(folder)
    discovery = FolderDiscovery("s", pattern, tmp_path, ledger.find_archived)
    assert discovery.find_new() == []
    (tmp_path / "in" / "b" / "x").mkdir(parents=True)
    (tmp_path / "in" / "b" / "x" / "1.csv").touch()
    assert _names(discovery.find_new()) == ["1.csv"]


def test_missing_folder_has_no_files_until_it_is_there(tmp_path: Path, ledger: _Ledger) -> None:
    pattern = str(tmp_path / "in" / "*.csv")
    discovery = FolderDiscovery("s", pattern, tmp_path, ledger.find_archived)
    assert discovery.find_new() == []
    assert discovery.problem is None
    discovery.create_folders()
    (tmp_path / "in" / "1.csv").touch()
    assert _names(discovery.find_new()) == ["1.csv"]


def test_unreadable_folder_is_a_problem_and_the_others_are_read(
    tmp_path: Path, ledger: _Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.csv").touch()
    discovery = FolderDiscovery("s", str(tmp_path / "*" / "*.csv"), tmp_path, ledger.find_archived)
    listdir = os.listdir

    def list_folder(folder: str) -> list[str]:
        if folder == str(tmp_path / "a"):
            raise PermissionError(13, "Permission denied")
        return listdir(folder)

    with monkeypatch.context() as patch:
        patch.setattr(os, "listdir", list_folder)
        assert _names(discovery.find_new()) == ["b.csv"]
        assert discovery.problem == f"{tmp_path}/a: cannot list the folder: Permission denied"
    assert _names(discovery.find_new()) == ["a.csv"]
    assert discovery.problem is None


def test_files_have_time_and_size(tmp_path: Path, ledger: _Ledger) -> None:
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / "1.csv"
    path.write_text("ts\n")
    _set_time(path, 1_767_225_600.25)
    (tmp_path / "in" / "folder.csv").mkdir()
    (tmp_path / "in" / ".2.csv").touch()
    pattern = str(tmp_path / "home" / ".." / "in" / "*.csv")
    discovery = FolderDiscovery("s", pattern, tmp_path, ledger.find_archived)
    assert discovery.find_new() == [
        DiscoveredFile("s", path, 1_767_225_600_250_000, 3, path.stat().st_ino)
    ]
    assert "in/1.csv" in ledger.requested


def test_file_that_comes_back_or_is_forgotten_is_found_again(
    tmp_path: Path, ledger: _Ledger
) -> None:
    path = tmp_path / "a.csv"
    discovery = FolderDiscovery("s", str(tmp_path / "{a,b}.csv"), tmp_path, ledger.find_archived)
    path.touch()
    assert _names(discovery.find_new()) == ["a.csv"]
    path.unlink()
    assert discovery.find_new() == []
    path.touch()
    assert _names(discovery.find_new()) == ["a.csv"]


def test_any_name_is_found_and_has_a_name_in_the_ledger(tmp_path: Path, ledger: _Ledger) -> None:
    folder = tmp_path / "[in] {a,b} *"
    folder.mkdir()
    names = [
        b"l\xe9.jsonl",
        b"new\nline.jsonl",
        b"back\\slash.jsonl",
        b"_under.jsonl",
        b"a:b%20c ?*[x]{y}.jsonl",
        b"\xff" * 249 + b".jsonl",
        "é.jsonl".encode(),
    ]
    for name in names:
        (folder / os.fsdecode(name)).touch()
    (folder / ".hidden.jsonl").touch()
    pattern = f"{escape_glob(str(folder))}/*.jsonl"
    discovery = FolderDiscovery("s", pattern, folder, ledger.find_archived)
    assert sorted(os.fsencode(file.path.name) for file in discovery.find_new()) == sorted(names)
    assert "l\\xe9.jsonl" in ledger.requested
    assert all(name.isprintable() for name in ledger.requested)
    again = FolderDiscovery("s", pattern, folder, lambda names: names & set(ledger.requested))
    assert again.find_new() == []


def test_links_to_nothing_are_files_and_folders_are_named_once(
    tmp_path: Path, ledger: _Ledger
) -> None:
    discovery = FolderDiscovery("s", str(tmp_path / "*.jsonl"), tmp_path, ledger.find_archived)
    (tmp_path / "folder.jsonl").mkdir()
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "dangling.jsonl").symlink_to(tmp_path / "nothing")
    (tmp_path / "loop.jsonl").symlink_to(tmp_path / "loop.jsonl")
    with capture_logs() as logs:
        assert _names(discovery.find_new()) == ["dangling.jsonl", "loop.jsonl"]
        (tmp_path / "a.jsonl").touch()
        assert _names(discovery.find_new()) == ["a.jsonl"]
    names = [(entry["action"], entry["name"]) for entry in logs]
    assert sorted(names) == [("no_file", "folder.jsonl"), ("no_file", "pipe.jsonl")]


@pytest.fixture
def watched(
    tmp_path: Path, ledger: _Ledger, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FolderDiscovery]:
    """A discovery that has listed its folder once, and is not to list it again by time."""
    monkeypatch.setattr(folders, "_MIN_LISTING_INTERVAL", 1000.0)
    pattern = str(tmp_path / "*.jsonl")
    discovery = FolderDiscovery("s", pattern, tmp_path, ledger.find_archived, watch=True)
    assert discovery.find_new() == []
    yield discovery
    discovery.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="inotify is of Linux")
def test_new_files_of_a_watched_folder_need_no_listing(
    tmp_path: Path, ledger: _Ledger, listed: list[str], watched: FolderDiscovery
) -> None:
    listed.clear()
    (tmp_path / ".a").touch()
    (tmp_path / ".a").rename(tmp_path / "a.jsonl")
    (tmp_path / "a.txt").touch()
    (tmp_path / "gone.jsonl").touch()
    (tmp_path / "gone.jsonl").unlink()
    assert _names(watched.find_new()) == ["a.jsonl"]
    (tmp_path / "a.jsonl").unlink()
    assert watched.find_new() == []
    (tmp_path / "a.jsonl").touch()
    assert _names(watched.find_new()) == ["a.jsonl"], "it has come back"
    ledger.archived = {"b.jsonl"}
    (tmp_path / "b.jsonl").touch()
    assert watched.find_new() == []
    assert _names_of(watched) == ["a.jsonl", "b.jsonl"]
    assert listed == []


def _names_of(discovery: FolderDiscovery) -> list[str]:
    return sorted(map(os.path.basename, discovery.iterate_paths()))


@pytest.mark.skipif(sys.platform != "linux", reason="inotify is of Linux")
def test_a_watched_folder_is_listed_after_changes_that_are_not_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, watched: FolderDiscovery
) -> None:
    monkeypatch.setattr(FolderEvents, "read", lambda _: [])  # as for other hosts of a mount
    (tmp_path / "a.jsonl").touch()
    _set_time(tmp_path)
    assert watched.find_new() == []
    assert _names(watched.find_new()) == ["a.jsonl"]
    assert watched.find_new() == []


@pytest.mark.skipif(sys.platform != "linux", reason="inotify is of Linux")
def test_files_are_found_after_more_changes_than_the_kernel_keeps(
    tmp_path: Path, watched: FolderDiscovery
) -> None:
    assert watched.find_new() == []
    (tmp_path / "before.jsonl").touch()
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if limit > 200_000:
        pytest.skip(f"the kernel keeps {limit:,} changes")
    for _ in range(limit // 2 + 1):  # two changes each
        os.rename(tmp_path / "before.jsonl", tmp_path / "moved.jsonl")
        os.rename(tmp_path / "moved.jsonl", tmp_path / "before.jsonl")
    (tmp_path / "after.jsonl").touch()
    assert _names(watched.find_new()) == ["after.jsonl", "before.jsonl"]
    (tmp_path / "later.jsonl").touch()
    assert _names(watched.find_new()) == ["later.jsonl"]


@pytest.mark.skipif(sys.platform != "linux", reason="inotify is of Linux")
def test_a_watched_folder_is_listed_a_little_at_a_time(
    tmp_path: Path,
    ledger: _Ledger,
    listed: list[str],
    monkeypatch: pytest.MonkeyPatch,
    watched: FolderDiscovery,
) -> None:
    monkeypatch.setattr(folders, "_MIN_LISTING_INTERVAL", 0.0)
    monkeypatch.setattr(folders, "_LISTING_SHARE", 1e9)
    watched._list_again_at = 0.0
    monkeypatch.setattr(folder_sweep, "_SLICE_SECONDS", 0.0)
    monkeypatch.setattr(folder_sweep, "_NAMES_BETWEEN_LOOKS", 1)
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.jsonl").touch()
    assert _names(watched.find_new()) == ["a.jsonl", "b.jsonl", "c.jsonl"]
    ledger.archived = {"a.jsonl", "b.jsonl", "c.jsonl"}
    listed.clear()
    for number in range(20):  # removals are reported while folders are listed
        (tmp_path / "c.jsonl").unlink(missing_ok=True)
        if number % 2:
            (tmp_path / "c.jsonl").touch()
            ledger.archived.discard("c.jsonl")
        files = watched.find_new()
        assert _names(files) == (["c.jsonl"] if number % 2 else [])
    _ignore_events(monkeypatch)  # as when they are lost
    (tmp_path / "a.jsonl").unlink()
    (tmp_path / "d.jsonl").touch()
    watched._explained_times = {str(tmp_path): os.stat(tmp_path).st_mtime_ns}
    found = [name for _ in range(20) for name in _names(watched.find_new())]
    assert found == ["d.jsonl"]
    assert _names_of(watched) == ["b.jsonl", "c.jsonl", "d.jsonl"]
    assert listed == []


def _ignore_events(monkeypatch: pytest.MonkeyPatch) -> None:
    read = FolderEvents.read

    def read_nothing(events: FolderEvents) -> Sequence[FolderEvent]:
        read(events)
        return []

    monkeypatch.setattr(FolderEvents, "read", read_nothing)


@pytest.mark.skipif(sys.platform != "linux", reason="inotify is of Linux")
def test_a_watched_folder_that_is_replaced_is_listed_and_watched_again(
    tmp_path: Path, ledger: _Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "_MIN_LISTING_INTERVAL", 1000.0)
    folder = tmp_path / "in"
    folder.mkdir()
    pattern = str(folder / "*.jsonl")
    discovery = FolderDiscovery("s", pattern, tmp_path, ledger.find_archived, watch=True)
    assert discovery.find_new() == []
    folder.rename(tmp_path / "old")
    folder.mkdir()
    (folder / "a.jsonl").touch()
    assert _names(discovery.find_new()) == ["a.jsonl"]
    (folder / "b.jsonl").touch()
    (tmp_path / "old" / "c.jsonl").touch()
    assert _names(discovery.find_new()) == ["b.jsonl"]
    discovery.stop()
