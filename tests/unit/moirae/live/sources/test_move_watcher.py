"""Moves that inotify reports, apart from all other changes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from moirae.live.sources.file_state import read_file_state
from moirae.live.sources.move_watcher import MoveWatcher
from tests.waiting import wait_until


@pytest.fixture
def watcher() -> Iterator[MoveWatcher]:
    watcher = MoveWatcher()
    yield watcher
    watcher.stop()


def _move(source: Path, path: Path, watcher: MoveWatcher) -> None:
    source.write_text("moved\n")
    source.rename(path)
    state = read_file_state(path)
    wait_until(lambda: watcher.state_after_move(path) == state, 10)


def test_move_is_seen_from_the_folder_and_from_elsewhere(
    tmp_path: Path, watcher: MoveWatcher
) -> None:
    (tmp_path / "a").mkdir()
    path = tmp_path / "a" / "hosts.csv"
    watcher.watch(path)
    _move(tmp_path / "a" / ".new", path, watcher)
    _move(tmp_path / "elsewhere", path, watcher)


def test_write_and_copy_are_no_moves(tmp_path: Path, watcher: MoveWatcher) -> None:
    path, other = tmp_path / "hosts.csv", tmp_path / "other.csv"
    watcher.watch(path)
    watcher.watch(other)
    path.write_text("written\n")
    _move(tmp_path / "new", other, watcher)  # an event after those of the write
    assert watcher.state_after_move(path) is None


def test_file_written_after_its_move_is_in_another_state(
    tmp_path: Path, watcher: MoveWatcher
) -> None:
    path = tmp_path / "hosts.csv"
    watcher.watch(path)
    _move(tmp_path / "new", path, watcher)
    with path.open("a") as file:
        file.write("more")
    assert watcher.state_after_move(path) != read_file_state(path)


def test_replaced_folder_is_watched_again(tmp_path: Path, watcher: MoveWatcher) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    path = folder / "hosts.csv"
    watcher.watch(path)
    folder.rename(tmp_path / "old")
    watcher.watch(path)
    (tmp_path / "b").mkdir()
    (tmp_path / "b").rename(folder)
    assert watcher.state_after_move(path) is None
    watcher.watch(path)
    _move(tmp_path / "new", path, watcher)


def test_folder_of_any_bytes_is_watched(tmp_path: Path, watcher: MoveWatcher) -> None:
    folder = tmp_path / "caf\udce9"
    folder.mkdir()
    path = folder / "hosts.csv"
    watcher.watch(path)
    _move(folder / "new", path, watcher)


def test_without_inotify_no_move_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, watcher: MoveWatcher
) -> None:
    def fail() -> None:
        raise OSError(24, "inotify instance limit reached")

    monkeypatch.setattr("moirae.live.sources.move_watcher._create_observer", fail)
    path = tmp_path / "hosts.csv"
    watcher.watch(path)
    watcher.watch(path)
    path.touch()
    assert watcher.state_after_move(path) is None
