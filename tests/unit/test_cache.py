"""Copies of files: held as long as a reader may take, whatever the clock does; what was begun and left goes."""

import errno
import os
import time
from pathlib import Path

import pytest

from archiver.cache import Cache

GRACE = 100.0


def brought(cache: Cache, name: str, size: int = 10, hold: bool = False) -> Path:
    path = cache.folder / "chunk=0" / name
    with cache.writing(path, hold) as begun:
        begun.write_bytes(b"x" * size)
    return path


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 1000, GRACE)
    first, second, third = (brought(cache, name) for name in "abc")
    for age, path in enumerate((second, third, first)):
        os.utime(path, (time.time() - 1000 + age, 1))
    cache.tidy(25)
    assert (first.exists(), second.exists(), third.exists()) == (True, False, True)
    cache.opened(third)
    cache.tidy(15)
    assert (first.exists(), third.exists()) == (False, True)
    cache.tidy(0)
    assert not third.exists() and not third.parent.exists()


def test_what_is_held_stays_and_is_not_let_go_by_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(tmp_path, 1000, GRACE)
    held = brought(cache, "a", hold=True)
    assert cache.hold([held]) and not cache.hold([held, tmp_path / "none"])
    cache.opened(held)
    brought(cache, "a")  # another brings the same
    cache.tidy(0)
    assert held.exists()
    now, changed = time.time(), held.stat().st_mtime_ns
    monkeypatch.setattr(time, "time", lambda: now + GRACE - 5)
    cache.tidy(0)
    assert held.exists()
    monkeypatch.setattr(time, "time", lambda: now + GRACE + 5)
    cache.tidy(0)
    assert not held.exists()
    assert brought(cache, "a", hold=True).stat().st_mtime_ns != changed  # it is another file


def test_a_clock_that_was_set_back_holds_nothing_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(tmp_path, 1000, GRACE)
    path, now = brought(cache, "a", hold=True), time.time()
    monkeypatch.setattr(time, "time", lambda: now - 7200)
    cache.tidy(0)
    assert not path.exists()


def test_what_fails_leaves_nothing_and_a_full_disk_gets_room(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 1000, GRACE)
    old = brought(cache, "old")
    begun = cache.writing(tmp_path / "chunk=1" / "b")
    begun.__enter__().write_bytes(b"x")
    full = OSError(errno.ENOSPC, "full")
    assert not begun.__exit__(OSError, full, None)
    assert not old.exists() and not [path for path in tmp_path.rglob("*") if path.is_file() and path.name != ".lock"]


def test_what_a_killed_process_began_goes_after_a_while(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 1000, GRACE)
    left, young = tmp_path / ".left.part", tmp_path / ".young.part"
    for path in (left, young):
        path.write_bytes(b"x")
    os.utime(left, (1, time.time() - 7200))
    brought(cache, "a")
    assert not left.exists() and young.exists()
