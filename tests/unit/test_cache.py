"""Copies of files: held as long as a reader may take, whatever the clock does; what was begun and left goes."""

import errno
import os
import shutil
import threading
import time
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pytest

import archiver.storage.file_cache
from archiver.storage.file_cache import _TIME_ORIGIN, FileCache, _lease_end

GRACE = 100.0
NOW = 100_000.0


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Seconds since the machine was started."""
    known = Mock(return_value=NOW)
    monkeypatch.setattr(archiver.storage.file_cache, "seconds_since_boot", known)
    return known


def brought(cache: FileCache, name: str, size: int = 10, hold: bool = False) -> Path:
    path = cache.folder / "chunk=0" / name
    with cache.write_file(path, hold) as begun:
        begun.write_bytes(b"x" * size)
    return path


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, 1000, GRACE)
    first, second, third = (brought(cache, name) for name in "abc")
    for age, path in enumerate((second, third, first)):
        os.utime(path, (_TIME_ORIGIN + NOW - 1000 + age, 1))
    cache.evict(25)
    assert (first.exists(), second.exists(), third.exists()) == (True, False, True)
    cache.record_read(third)
    cache.evict(15)
    assert (first.exists(), third.exists()) == (False, True)
    cache.evict(0)
    assert not third.exists() and not third.parent.exists()


def test_what_is_held_stays_and_is_not_let_go_by_others(tmp_path: Path, clock: Mock) -> None:
    cache = FileCache(tmp_path, 1000, GRACE)
    held = brought(cache, "a", hold=True)
    assert cache.lease([held]) and not cache.lease([held, tmp_path / "none"])
    cache.record_read(held)
    brought(cache, "a")  # another brings the same
    cache.evict(0)
    assert held.exists()
    changed, clock.return_value = held.stat().st_mtime_ns, NOW + GRACE - 5
    cache.evict(0)
    assert held.exists()
    clock.return_value = NOW + 2 * GRACE
    cache.evict(0)
    assert not held.exists()
    assert brought(cache, "a", hold=True).stat().st_mtime_ns != changed  # it is another file


@pytest.mark.parametrize("step", [-7200.0, 7200.0])
def test_steps_of_the_clock_let_nothing_go(
    step: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = FileCache(tmp_path, 1000, GRACE)
    path, now = brought(cache, "a", hold=True), time.time()
    path.read_bytes()  # the system may remember that it was read
    monkeypatch.setattr(time, "time", lambda: now + step)
    begun = cache.write_file(tmp_path / "chunk=0" / "b")
    begun.__enter__().write_bytes(b"x")
    cache.evict(0)
    begun.__exit__(None, None, None)
    assert path.exists() and path.with_name("b").exists()


def test_after_the_machine_was_started_again_nothing_is_held(tmp_path: Path, clock: Mock) -> None:
    cache = FileCache(tmp_path, 1000, GRACE)
    path = brought(cache, "a", hold=True)
    clock.return_value = 10.0
    young = brought(cache, "b")
    cache.evict(10)
    assert (path.exists(), young.exists()) == (False, True)


def test_what_was_just_handed_out_is_not_written_again_and_stays_as_long_as_it_must(
    tmp_path: Path, clock: Mock
) -> None:
    cache = FileCache(tmp_path, 1000, GRACE)
    path = brought(cache, "a", hold=True)
    clock.return_value = NOW + GRACE / 8
    with patch.object(os, "utime") as touched:
        assert cache.lease([path])
    assert not touched.called and _lease_end(path.stat()) >= clock.return_value + GRACE
    clock.return_value = NOW + GRACE / 2
    assert cache.lease([path]) and _lease_end(path.stat()) >= clock.return_value + GRACE


def test_a_disk_that_is_nearly_full_is_left_to_others(tmp_path: Path, clock: Mock) -> None:
    """Readers are refused what does not fit beside what is held, writers are not; in vain nobody looks each time."""
    cache = FileCache(tmp_path, 1600, GRACE)
    held, loose = brought(cache, "a", 100, hold=True), brought(cache, "b", 100)

    def free(_: Path) -> Mock:
        taken = sum(path.stat().st_size for path in tmp_path.rglob("[a-z]") if path.is_file())
        return Mock(free=archiver.storage.file_cache._RESERVED_SPACE + 150 - taken)

    with patch.object(shutil, "disk_usage", free):
        cache.ensure_space(50)
        assert held.exists() and not loose.exists()
        with patch.object(cache, "evict", wraps=cache.evict) as tidy:
            for _ in range(9):
                with pytest.raises(OSError, match="No space") as refused:
                    cache.ensure_space(51)
                assert refused.value.errno == errno.ENOSPC
            written = [brought(cache, name) for name in "cdefghij"]
            assert tidy.call_count == 1 and all(path.exists() for path in written)
            clock.return_value += 60
            brought(cache, "k")
            assert tidy.call_count == 2
            assert held.exists() and not any(path.exists() for path in written)


def test_what_fails_leaves_nothing_and_a_full_disk_gets_room(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, 1000, GRACE)
    old = brought(cache, "old")
    begun = cache.write_file(tmp_path / "chunk=1" / "b")
    begun.__enter__().write_bytes(b"x")
    full = OSError(errno.ENOSPC, "full")
    assert not begun.__exit__(OSError, full, None)
    assert not old.exists() and not [
        path for path in tmp_path.rglob("*") if path.is_file() and path.name != ".lock"
    ]


def test_what_a_killed_process_began_goes_after_a_while(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, 1000, GRACE)
    left, young = tmp_path / ".left.part", tmp_path / ".young.part"
    for path in (left, young):
        path.write_bytes(b"x")
    os.utime(left, (_TIME_ORIGIN + NOW - 4 * 3600, time.time()))
    os.utime(young, (_TIME_ORIGIN + NOW - 3600, 1))
    brought(cache, "a")
    assert not left.exists() and young.exists()


def test_what_is_just_being_made_is_not_taken_for_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread removes what was left unfinished while a file is there and has not been given its time."""
    cache, real, tidying = FileCache(tmp_path, 1, 60.0), os.utime, list[threading.Thread]()

    def utime(*values: Any, **named: Any) -> None:
        if not tidying and Path(values[0]).exists():
            tidying.append(threading.Thread(target=FileCache(tmp_path, 1, 60.0).evict, args=(0,)))
            tidying[0].start()
            tidying[0].join(0.3)
        real(*values, **named)

    monkeypatch.setattr(os, "utime", utime)
    with cache.write_file(tmp_path / "a" / "file") as path:
        path.write_bytes(b"x")
        tidying[0].join()
    assert tidying
